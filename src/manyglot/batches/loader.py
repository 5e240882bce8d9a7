"""The loader: batches of an endless series of epochs, from any place on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from manyglot.batches.batch import Batch, Collator, Extent
from manyglot.batches.pairs import PairsIndex
from manyglot.batches.plan import BatchSettings, Plan
from manyglot.batches.store import AnyInts, IntArray, TokenStore
from manyglot.corpus.languages import Direction, Languages
from manyglot.vocabulary.vocabulary import Tags

COUNTED_AT_ONCE = 2**22
"""Sentences whose lengths are looked up together: all at once may be more than the memory holds."""
PLANNED_AT_ONCE = 64
"""Batches whose sentences are found together: one by one would cost more."""


@dataclass(frozen=True)
class Place:
    """Where a run is in its data: the next batch of an epoch. All that resuming needs."""

    epoch: int = 0
    batch: int = 0


@dataclass(frozen=True)
class Planned:
    """A batch that is not loaded yet; processes that share the work load only their own."""

    source: AnyInts
    target: AnyInts
    language: IntArray
    collate: Collator

    def tokens_by_language(self) -> IntArray:
        """Target tokens that are to be predicted."""
        return self.collate.tokens_by_language(self.target, self.language)

    def num_source_tokens(self) -> int:
        """Source tokens that are read."""
        return self.collate.num_source_tokens(self.source)

    def extents(self) -> tuple[Extent, Extent]:
        """How large the source is, and what the decoder reads."""
        return self.collate.extents(self.source, self.target)

    def lines(self) -> list[tuple[str, str, int]]:
        """Source language, target language and line of the text of each sentence pair."""
        store = self.collate.store
        lines = (store.rows[self.source] + 1).tolist()
        return list(zip(store.languages_of(self.source), store.languages_of(self.target), lines, strict=True))

    def load(self) -> Batch:
        """Its tensors."""
        return self.collate(self.source, self.target, self.language)


class Loader:
    """Turns the plan of each epoch into tensors; the sentences of a batch are ordered by target language."""

    def __init__(
        self,
        store: TokenStore,
        directions: Sequence[Direction],
        settings: BatchSettings,
        tags: Sequence[Tags],
        seed: int,
    ) -> None:
        longest = max(1, *(max(len(tag.source), len(tag.target)) for tag in tags))  # 1: models without have the same
        self.plan = Plan(PairsIndex(store), directions, settings, longest + 1, seed)  # and </s>
        self.language_D = np.array([store.languages.id(direction.target) for direction in self.directions])
        self._collate = Collator(store, tags)

    @property
    def languages(self) -> Languages:
        """The languages of the store."""
        return self._collate.store.languages

    @property
    def directions(self) -> list[Direction]:
        """The directions that have sentences."""
        return self.plan.directions

    def tokens_by_direction(self) -> list[int]:
        """Target tokens that are to be predicted in all the pairs of each direction."""
        targets = (self.plan.index.pairs_of(direction)[:, 1] for direction in self.directions)
        return [sum(int(self._collate.num_tokens(part).sum()) for part in _parts(target)) for target in targets]

    def batches(self, place: Place) -> Iterator[tuple[Batch, Place]]:
        """Yield batches from a place on, each with the place after it, without end."""
        return ((planned.load(), after) for planned, after in self.planned(place))

    def planned(self, place: Place) -> Iterator[tuple[Planned, Place]]:
        """As `batches`, without loading them."""
        epoch, first = place.epoch, place.batch
        while True:
            last = self.plan.num_batches(epoch)
            for index, planned in enumerate(self._planned_epoch(epoch, first), start=first + 1):
                yield planned, Place(epoch, index) if index < last else Place(epoch + 1, 0)
            epoch, first = epoch + 1, 0

    def _planned_epoch(self, epoch: int, first: int) -> Iterator[Planned]:
        last = self.plan.num_batches(epoch)
        for start in range(first, last, PLANNED_AT_ONCE):
            stop = min(start + PLANNED_AT_ONCE, last)
            entries = self.plan.entries(epoch, start, stop)
            languages = self.language_D[entries.direction]
            for index in range(stop - start):
                rows = entries.batch(index)
                order = np.argsort(languages[rows], kind="stable")
                source, target = entries.source[rows][order], entries.target[rows][order]
                yield Planned(source, target, languages[rows][order], self._collate)


def _parts(sentences: AnyInts) -> Iterator[AnyInts]:
    return (sentences[start : start + COUNTED_AT_ONCE] for start in range(0, len(sentences), COUNTED_AT_ONCE))
