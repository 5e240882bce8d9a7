"""Warnings about single input lines: the first few of each kind in full, then their number."""

from __future__ import annotations

from collections import Counter
from typing import Literal

from manyglot.decoding.scored_translation import TextWarningKind
from manyglot.decoding.source_text import SourceText
from manyglot.decoding.translation_requests import TranslationRequest
from manyglot.progress import print_status

WarningKind = Literal["problem", "unknown_language", "change"] | TextWarningKind
WARNING_LABELS: dict[WarningKind, str] = {
    "problem": "lines could not be translated",
    "unknown_language": "target languages of partly translated lines are unknown",
    "change": "lines were changed",
    "too_long": "lines have sentences that are longer than the training text",
    "unknown_characters": "lines have characters unknown to the model",
}
MAX_WARNINGS_PER_KIND = 10
"""Number of warnings of each kind to print in full. The others are only counted."""


class RequestWarningPrinter:
    """Prints the problems of requests, the changes made to their text, and what may be missing in translations."""

    def __init__(self) -> None:
        self.counts: Counter[WarningKind] = Counter()
        self.num_split_lines = self.num_split_sentences = 0
        """Number of lines that were split, and number of sentences they were split into."""

    def warn(self, request: TranslationRequest, source: SourceText | None = None) -> None:
        """Print and count the warnings about one request and its text."""
        if request.problem:
            self._warn("problem", request.problem)
        else:
            for problem in request.unknown_languages.values():
                self._warn("unknown_language", problem)
        for note in request.notes:
            self._warn("change", note)
        if source is None:
            return
        for warning in source.warnings:
            self._warn(warning.kind, f"{request.location} {warning.message}")
        if source.is_split:
            self.num_split_lines += 1
            self.num_split_sentences += len(source.sentences)

    def print_totals(self) -> None:
        """Print the totals of warnings that were not printed in full, and of split lines."""
        for kind, count in self.counts.items():
            if count > MAX_WARNINGS_PER_KIND:
                print_status(
                    f"manyglot: {count:,} {WARNING_LABELS[kind]}; the first {MAX_WARNINGS_PER_KIND} are listed above."
                )
        if self.num_split_lines:
            lines = "1 line was" if self.num_split_lines == 1 else f"{self.num_split_lines:,} lines were"
            print_status(f"manyglot: {lines} split into {self.num_split_sentences:,} sentences.")

    def _warn(self, kind: WarningKind, message: str) -> None:
        self.counts[kind] += 1
        if self.counts[kind] <= MAX_WARNINGS_PER_KIND:
            print_status(f"manyglot: {message}")
