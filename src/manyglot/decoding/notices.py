"""Notices to the user about single lines: the first of each kind, and how many more there were."""

from __future__ import annotations

from collections import Counter
from typing import Literal

from manyglot.decoding.requests import Request
from manyglot.progress import say

Kind = Literal["problem", "unknown_language", "change"]
LABELS: dict[Kind, str] = {
    "problem": "lines could not be translated",
    "unknown_language": "languages of lines that were translated into others are not known",
    "change": "lines were changed",
}
MOST_TOLD = 10
"""Notices of a kind that are told one by one."""


class Notices:
    """Tells what was wrong with requests and what was changed in them."""

    def __init__(self) -> None:
        self.numbers: Counter[Kind] = Counter()
        self.num_split = self.num_parts = 0
        """Lines that were split into sentences, and these."""

    def tell(self, request: Request) -> None:
        """Say what there is to say of a request."""
        if request.problem:
            self._tell("problem", request.problem)
        else:
            for problem in request.unknown.values():
                self._tell("unknown_language", problem)
        for note in request.notes:
            self._tell("change", note)
        if request.parts is not None and not request.problem:
            self.num_split += 1
            self.num_parts += len(request.parts)

    def finish(self) -> None:
        """Say how many were not told, and what was split."""
        for kind, number in self.numbers.items():
            if number > MOST_TOLD:
                say(f"manyglot: {number:,} {LABELS[kind]}; the first {MOST_TOLD} are named above.")
        if self.num_split:
            lines = "1 line was" if self.num_split == 1 else f"{self.num_split:,} lines were"
            say(f"manyglot: {lines} split into {self.num_parts:,} sentences.")

    def _tell(self, kind: Kind, message: str) -> None:
        self.numbers[kind] += 1
        if self.numbers[kind] <= MOST_TOLD:
            say(f"manyglot: {message}")
