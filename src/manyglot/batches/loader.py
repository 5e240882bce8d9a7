"""The batch loader: an endless stream of epochs that can start at any batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from manyglot.batches.array_files import AnyInts, IntArray
from manyglot.batches.batch import Batch, Collator, SideTokenCounts
from manyglot.batches.pair_index import PairIndex
from manyglot.batches.plan import BatchPlan, BatchSettings
from manyglot.batches.token_store import TokenStore
from manyglot.corpus.languages import Direction, Languages
from manyglot.vocabulary.vocabulary import LanguageTags

SENTENCES_PER_LENGTH_LOOKUP = 2**22
"""Number of sentences whose lengths are looked up together, which limits the memory needed."""
BATCHES_PER_PLANNING = 64
"""Number of batches planned together, which is faster than planning them one by one."""


@dataclass(frozen=True)
class DataPosition:
    """The position of a run in its data, which is all that resuming needs."""

    epoch: int = 0
    next_batch: int = 0
    """Index of the next batch of the epoch."""


@dataclass(frozen=True)
class PlannedBatch:
    """The sentence pairs of a batch that is not loaded yet; in distributed training a process loads only its own."""

    source_indices: AnyInts
    """Indices of the source sentences in the token store."""
    target_indices: AnyInts
    """Indices of their translations."""
    source_language_ids: IntArray
    target_language_ids: IntArray
    collate: Collator

    def num_target_tokens_by_language(self) -> IntArray:
        """Count the target tokens to predict, by language id."""
        return self.collate.num_target_tokens_by_language(self.target_indices, self.target_language_ids)

    def num_source_tokens(self) -> int:
        """Count the source tokens."""
        return self.collate.num_source_tokens(self.source_indices)

    def token_counts(self) -> tuple[SideTokenCounts, SideTokenCounts]:
        """Count the tokens of the source side and of the decoder input."""
        return self.collate.token_counts(self.source_indices, self.target_indices)

    def text_locations(self) -> list[tuple[str, str, int]]:
        """Return the source language, target language and line number in the text of each sentence pair."""
        store, sides = self.collate.store, (self.source_indices, self.target_indices)
        line_numbers = (store.rows[self.source_indices] + 1).tolist()
        return list(zip(*(store.language_codes(side) for side in sides), line_numbers, strict=True))

    def load(self) -> Batch:
        """Load the batch as tensors."""
        return self.collate(
            self.source_indices, self.target_indices, self.source_language_ids, self.target_language_ids
        )


class BatchLoader:
    """Turns the batch plan of each epoch into tensors. The sentences of a batch are ordered by target language."""

    def __init__(
        self,
        store: TokenStore,
        directions: Sequence[Direction],
        settings: BatchSettings,
        tags: Sequence[LanguageTags],
        seed: int,
    ) -> None:
        # A model without tags counts as having one, so that all models are trained on the same batches.
        max_tags = max(1, *(max(tag.num_source_tags, len(tag.target)) for tag in tags))
        self.plan = BatchPlan(PairIndex(store), directions, settings, max_tags + 1, seed)  # 1: </s>
        self.source_language_D = np.array([store.languages.id(direction.source) for direction in self.directions])
        self.target_language_D = np.array([store.languages.id(direction.target) for direction in self.directions])
        self._collate = Collator(store, tags)

    @property
    def languages(self) -> Languages:
        """The languages of the token store."""
        return self._collate.store.languages

    @property
    def directions(self) -> list[Direction]:
        """The directions that have sentence pairs."""
        return self.plan.directions

    @property
    def max_tokens_per_sentence(self) -> int:
        """The tokens of the longest sentence on either side, tags and </s> included; or slightly more."""
        return self.plan.max_sentence_length

    def num_target_tokens_by_direction(self) -> list[int]:
        """Count the target tokens to predict in all pairs of each direction, in the order of `directions`."""
        targets_by_direction = (self.plan.index.pair_indices(direction)[:, 1] for direction in self.directions)
        count = self._collate.num_target_tokens_per_sentence
        return [
            sum(int(count(chunk).sum()) for chunk in _length_lookup_chunks(targets)) for targets in targets_by_direction
        ]

    def iter_batches(self, position: DataPosition) -> Iterator[tuple[Batch, DataPosition]]:
        """Yield batches from a position on, each with the position after it, epoch after epoch without end."""
        return ((planned.load(), after) for planned, after in self.iter_planned_batches(position))

    def iter_planned_batches(self, position: DataPosition) -> Iterator[tuple[PlannedBatch, DataPosition]]:
        """Like `iter_batches`, but without loading the batches."""
        epoch, first = position.epoch, position.next_batch
        while True:
            last = self.plan.num_batches(epoch)
            for index, planned in enumerate(self._planned_epoch(epoch, first), start=first + 1):
                yield planned, DataPosition(epoch, index) if index < last else DataPosition(epoch + 1, 0)
            epoch, first = epoch + 1, 0

    def _planned_epoch(self, epoch: int, first: int) -> Iterator[PlannedBatch]:
        last = self.plan.num_batches(epoch)
        for start in range(first, last, BATCHES_PER_PLANNING):
            stop = min(start + BATCHES_PER_PLANNING, last)
            pairs = self.plan.planned_pairs(epoch, start, stop)
            sources, languages = self.source_language_D[pairs.direction], self.target_language_D[pairs.direction]
            for index in range(stop - start):
                rows = pairs.batch_slice(index)
                order = np.argsort(languages[rows], kind="stable")
                source, target = pairs.source[rows][order], pairs.target[rows][order]
                yield PlannedBatch(source, target, sources[rows][order], languages[rows][order], self._collate)


def _length_lookup_chunks(sentences: AnyInts) -> Iterator[AnyInts]:
    return (
        sentences[start : start + SENTENCES_PER_LENGTH_LOOKUP]
        for start in range(0, len(sentences), SENTENCES_PER_LENGTH_LOOKUP)
    )
