"""A corpus is rows: one sentence in several languages, a language that has none left out.

A multi-way corpus has rows of many languages and a bilingual one has rows of two; every stage after the reader treats
them alike, so a sentence is kept once however many directions it serves.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from itertools import islice
from typing import Protocol, TypeVar

from manyglot.config.settings import Settings

T = TypeVar("T")
Row = Mapping[str, str]


class Split(StrEnum):
    """The three parts of a corpus."""

    TRAIN = "train"
    DEV = "dev"
    TEST = "test"


SPLITS = {
    "train": Split.TRAIN,
    "dev": Split.DEV,
    "valid": Split.DEV,
    "validation": Split.DEV,
    "test": Split.TEST,
    "devtest": Split.TEST,
}
"""The names that people give them."""


class CorpusOptions(Settings):
    """What all corpora have in common: which directions to train on."""

    pivot: str | None = "en"
    """Train to and from this language only, so that all other directions are zero-shot; null trains on all pairs."""
    directions: tuple[str, ...] = ()
    """Train on these directions instead, such as [de>en, en>fr]; pivot then only says how results are grouped."""
    exclude: tuple[str, ...] = ()
    """Never train on these directions, such as [de>fr], so that they stay zero-shot."""


class Corpus(Protocol):
    """What a reader offers."""

    @property
    def languages(self) -> tuple[str, ...]:
        """The language codes."""

    def rows(self, split: Split) -> Iterator[Row]:
        """Read one split from the beginning; the same rows in the same order each time."""

    def fingerprint(self) -> str:
        """A short text that changes when the rows do though the settings do not, so that stale data is noticed."""


def take_split(stream: Iterator[T], split: Split, sizes: Mapping[Split, int]) -> Iterator[T]:
    """Cut a split out of an endless stream of distinct things.

    Dev and test come first, so that they stay the same whatever the size of the training split.
    """
    start = 0
    for each in (Split.DEV, Split.TEST, Split.TRAIN):
        if each is split:
            break
        start += sizes[each]
    return islice(stream, start, start + sizes[split])
