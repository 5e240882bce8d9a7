"""The loader: batches of an endless series of epochs, from any place on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from manyglot.batches.batch import Batch, collate
from manyglot.batches.plan import BatchSettings, check_budget, directed_pairs, plan_epoch
from manyglot.batches.store import IntArray, TokenStore
from manyglot.corpus.languages import Direction
from manyglot.vocabulary.vocabulary import Tags


@dataclass(frozen=True)
class Place:
    """Where a run is in its data: the next batch of an epoch. All that resuming needs."""

    epoch: int = 0
    batch: int = 0


class Loader:
    """Turns the plan of each epoch into tensors."""

    def __init__(
        self,
        store: TokenStore,
        directions: Sequence[Direction],
        settings: BatchSettings,
        tags: Sequence[Tags],
        seed: int,
    ) -> None:
        self.store, self.settings, self.tags, self.seed = store, settings, tags, seed
        num_symbols = 1 + max(max(len(tag.source), len(tag.target)) for tag in tags)  # </s> and the tags
        self.pairs = directed_pairs(store, directions, num_symbols)
        check_budget(self.pairs, settings)

    def batches(self, place: Place) -> Iterator[tuple[Batch, Place]]:
        """Yield batches from a place on, each with the place after it, without end."""
        epoch, first = place.epoch, place.batch
        while True:
            plan = plan_epoch(self.pairs, self.settings, self.seed, epoch)
            for index in range(first, len(plan)):
                after = Place(epoch, index + 1) if index + 1 < len(plan) else Place(epoch + 1, 0)
                yield self._collate(*plan[index]), after
            epoch, first = epoch + 1, 0

    def epoch(self, epoch: int = 0) -> Iterator[Batch]:
        """Yield the batches of one epoch."""
        plan = plan_epoch(self.pairs, self.settings, self.seed, epoch)
        for index in range(len(plan)):
            yield self._collate(*plan[index])

    def _collate(self, directions: IntArray, indices: IntArray) -> Batch:
        sources, targets, languages = [], [], []
        for direction, index in zip(directions.tolist(), indices.tolist(), strict=True):
            pairs = self.pairs[direction]
            sources.append(self.store[pairs.direction.source][pairs.source[index]].tolist())
            targets.append(self.store[pairs.direction.target][pairs.target[index]].tolist())
            languages.append(self.store.languages.id(pairs.direction.target))
        return collate(sources, targets, languages, self.tags)
