"""Which sentences are left out of training and dev, and the count of each reason; test sets are never touched."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from pydantic import Field

from manyglot.settings import Settings

Numbered = tuple[int, Sequence[int]]
"""A row and the subwords of its sentence in some language."""


class CleaningSettings(Settings):
    """Which sentences are left out of training and dev."""

    max_subwords: int = Field(100, ge=1)
    """Leave out sentences of more subwords than this."""


def clean(sentences: Iterable[Numbered], settings: CleaningSettings, dropped: Counter[str]) -> Iterator[Numbered]:
    """Yield the sentences worth learning from and count the others by reason.

    A sentence that is left out takes every pair it is part of with it, as the paper's filter of pairs does.
    """
    for row, subwords in sentences:
        if len(subwords) > settings.max_subwords:
            dropped["too long"] += 1
        elif subwords:  # an empty one is a language without this row, not a fault
            yield row, subwords
