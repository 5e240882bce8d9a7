"""Which sentences are left out of training and dev, and the count of each reason; test sets are never touched."""

from __future__ import annotations

from collections import Counter

import numpy as np
import numpy.typing as npt
from pydantic import Field

from manyglot.settings import Settings


class CleaningSettings(Settings):
    """Which sentences are left out of training and dev."""

    max_subwords: int = Field(100, ge=1)
    """Leave out sentences of more subwords than this."""


def keep(lengths: npt.NDArray[np.int64], settings: CleaningSettings) -> tuple[npt.NDArray[np.bool_], Counter[str]]:
    """Which sentences are worth learning from, by their numbers of subwords, and why others are left out.

    A sentence that is left out takes every pair it is part of with it, as the paper's filter of pairs does. An empty
    one is a language without this row, not a fault, and not counted.
    """
    too_long = lengths > settings.max_subwords
    dropped = Counter({"too long": int(too_long.sum())} if too_long.any() else {})
    return (lengths > 0) & ~too_long, dropped
