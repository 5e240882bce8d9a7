"""What an engine is to the Translator: whatever searches, for sentences as ids in any order and number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from manyglot.corpus.languages import Languages
from manyglot.decoding.beam import DecodingSettings, Hypothesis
from manyglot.progress import Bar

LINES_AT_ONCE = 1024
"""Sentences of a stream translated together: enough to sort by length, few enough to see progress."""


class Engine(Protocol):
    """Searches for the translations of sentences: the native engine with a model of ours, others with exports."""

    @property
    def languages(self) -> Languages:
        """The languages of the model, by whose ids the targets are told."""

    @property
    def settings(self) -> DecodingSettings:
        """The search where no other is asked for."""

    @property
    def at_once(self) -> int:
        """Sentences that it likes to be given together, out of a long text."""

    def translate_ids(
        self,
        sources: Sequence[Sequence[int]],
        languages: Sequence[int],
        settings: DecodingSettings | None = None,
        *,
        first: int = 0,
        progress: Bar | None = None,
        prefixes: Sequence[Sequence[int]] | None = None,
        best: int | None = None,
    ) -> list[list[Hypothesis]]:
        """The finished hypotheses of each sentence, best first; at least one.

        Sources are subwords without tags and end, languages the ids of the targets. An empty sentence stays empty.
        Where the sentences are part of a longer text, `first` is the place of the first one in it. Outputs begin with
        the prefixes, where there are any. No more than the best so many are given.
        """
