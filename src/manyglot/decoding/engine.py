"""The interface between the Translator and whatever searches: an engine answers requests in subword ids."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from manyglot.corpus.languages import Languages
from manyglot.decoding.beam import DecodingSettings, Hypothesis
from manyglot.progress import Bar

LINES_AT_ONCE = 1024
"""Sentences of a stream translated together: enough to sort by length, few enough to see progress."""


@dataclass(frozen=True)
class SearchRequest:
    """Sentences to translate, in any order and number, and how to search for their translations."""

    sources: Sequence[Sequence[int]]
    """Subword ids of each sentence, without tags and end symbol; an empty sentence has an empty translation."""
    languages: Sequence[int]
    """Target language id of each sentence."""
    settings: DecodingSettings
    prefixes: Sequence[Sequence[int]] | None = None
    """Subword ids that each translation must begin with."""
    num_hypotheses: int | None = None
    """Number of hypotheses to return per sentence; None returns as many as the beam holds."""
    offset: int = 0
    """Number of sentences that precede the first one in the text: what is sampled depends on it, not on the batches."""

    def __post_init__(self) -> None:
        assert len(self.sources) == len(self.languages)
        assert self.prefixes is None or len(self.prefixes) == len(self.sources)

    def restrict(self, rows: Collection[int]) -> SearchRequest:
        """Return the request with all other sentences emptied, so that each of these keeps its place in the text."""
        return replace(self, sources=[source if row in rows else [] for row, source in enumerate(self.sources)])


class Engine(Protocol):
    """Searches for translations: `NativeEngine` with a model folder, `ExportedEngine` with an export."""

    @property
    def languages(self) -> Languages:
        """The languages of the model, in the order of their ids."""

    @property
    def settings(self) -> DecodingSettings:
        """The decoding settings that the model was trained with."""

    @property
    def at_once(self) -> int:
        """Number of sentences per request, of a long text, with which the engine is fast."""

    def search(self, request: SearchRequest, progress: Bar | None = None) -> list[list[Hypothesis]]:
        """Return the finished hypotheses of each sentence, best first; at least one."""
