"""Converts progress in sentences to progress in larger units, such as texts or requests."""

from __future__ import annotations

from manyglot.progress import ProgressReporter


class ScaledProgress:
    """Reports progress in `num_units` units. A unit may have several sentences, or none."""

    def __init__(self, progress: ProgressReporter, num_units: int, num_sentences: int) -> None:
        self.progress, self.num_units = progress, num_units
        self.num_units_done = 0
        self.begin(num_sentences)

    def begin(self, num_sentences: int) -> None:
        """Start counting sentences. A second search starts again from 0."""
        self.num_sentences, self.num_sentences_done = num_sentences, 0

    def advance(self, amount: int = 1, note: str = "") -> None:
        """Report that `amount` more sentences are done."""
        self.num_sentences_done += amount
        self._advance_to(self.num_units * self.num_sentences_done // max(1, self.num_sentences), note)

    def finish(self) -> None:
        """Report all units as done, including those without sentences."""
        self._advance_to(self.num_units)

    def _advance_to(self, num_units: int, note: str = "") -> None:
        if num_units > self.num_units_done:
            self.progress.advance(num_units - self.num_units_done, note)
            self.num_units_done = num_units
