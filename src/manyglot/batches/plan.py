"""The plan: which sentence pairs are in which batch, as a function of seed, epoch and batch, with nothing to remember.

Sentence pairs of similar length form buckets, ranges of cells of the pairs index. In an epoch each direction is drawn a
number of times that temperature sampling gives: every pair as often as possible alike, the rest chosen at random. The
draws of all directions in a bucket are put into a pseudo-random order that can be computed at any position, and cut
into batches; the batches of all buckets are ordered in the same manner. So any batch of any epoch is found at once, by
any process, however large the corpus.

Letters: directions D, buckets K.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field, field_validator

from manyglot.batches.pairs import PairsIndex, lengths_of
from manyglot.batches.permutation import mix, permute
from manyglot.batches.store import AnyInts, IntArray
from manyglot.config.settings import Settings
from manyglot.corpus.languages import Direction
from manyglot.corpus.sampling import epoch_counts, weighted_counts
from manyglot.errors import CorpusError, SettingsError, suggest

COUNTED = 2**20
"""The most draws of an unfinished epoch that are counted; more are a fair sample of it."""
BATCHES, PAIRS, CHOSEN = range(3)
"""What a pseudo-random order is for, so that they are independent."""


class BatchSettings(Settings):
    """How sentences are drawn and put together."""

    max_tokens: int = Field(4096, ge=1)
    """Size of a batch: sentences times the longest of them, source or target, padding included; where sentences need
    not be alike, about so many tokens on each side."""
    temperature: float | None = Field(5.0, gt=0)
    """Directions are drawn in proportion to size^(1/temperature); null takes every pair once an epoch."""
    alike: Literal["longer", "both", "none"] = "none"
    """Which sides of the sentences of a batch are of like length. none: neither, so that all batches are alike, which
    is what a model learns best from; training does not pad. longer: the longer one, for less padding elsewhere; both:
    still less, but batches that differ much from one another."""
    weights: dict[str, float] = Field(default_factory=dict)
    """Draw directions in proportion to these instead, such as {en>de: 3}, where one that is not named has 1; an epoch
    then has as many pairs as the corpus."""
    into: dict[str, float] = Field(default_factory=dict)
    """Draw what is translated into a language so many times as often, such as {en: 0.25} where the sentences of a
    multi-way corpus would be learnt by heart in English; an epoch stays as long."""

    @field_validator("weights", "into")
    @classmethod
    def _positive(cls, weights: dict[str, float]) -> dict[str, float]:
        for name, weight in weights.items():
            if weight <= 0:
                raise ValueError(f"{name} should have a weight above 0; leave a direction out with corpus.exclude.")
        return weights

    @property
    def mixes_lengths(self) -> bool:
        """Whether there is one kind of batch, with sentences of all lengths."""
        return self.alike == "none"

    def check_weights(self, directions: Iterable[Direction]) -> None:
        """Refuse a weight of a direction, or of what goes into a language, that is not trained on."""
        directions = list(directions)
        names, targets = [each.as_setting() for each in directions], sorted({each.target for each in directions})
        for setting, weights, known in (("weights", self.weights, names), ("into", self.into, targets)):
            for name in weights:
                if name not in known:
                    raise SettingsError(f"batches.{setting}: {name} is not trained on. {suggest(name, known)}")

    def epoch_counts(self, sizes: Mapping[Direction, int]) -> IntArray:
        """How many pairs of each direction are drawn in an epoch."""
        self.check_weights(sizes)
        sizes_D = np.array(list(sizes.values()), dtype=np.int64)
        if self.weights:
            counts_D = weighted_counts(sizes_D, np.array([self.weights.get(d.as_setting(), 1.0) for d in sizes]))
        else:
            counts_D = epoch_counts(sizes_D, self.temperature)
        if not self.into:
            return counts_D
        into_D = np.array([self.into.get(d.target, 1.0) for d in sizes])
        return weighted_counts(sizes_D, into_D * counts_D, total=counts_D.sum())


@dataclass(frozen=True)
class Entries:
    """The sentence pairs of some consecutive batches."""

    direction: IntArray
    source: AnyInts
    """Numbers of sentences in the store."""
    target: AnyInts
    starts: IntArray
    """Batch i holds the entries from starts[i] to starts[i + 1]."""

    def batch(self, index: int) -> slice:
        """The entries of one of the batches."""
        return slice(int(self.starts[index]), int(self.starts[index + 1]))


@dataclass(frozen=True)
class _Buckets:
    """Ranges of cells."""

    sizes_DK: IntArray
    """How many sentence pairs of a direction are in each bucket."""
    starts_DK: IntArray
    """Where these begin in the pairs index."""
    most_K: IntArray
    """How many sentence pairs make a batch."""


@dataclass(frozen=True)
class _Epoch:
    """The numbers of one epoch."""

    draws_K: IntArray
    """How many sentence pairs are drawn from each bucket."""
    ends_KD: IntArray
    """Where the draws of each bucket and direction end, counted through all buckets."""
    batches_K: IntArray
    """Where the batches of each bucket end."""


class Plan:
    """All epochs of a training."""

    def __init__(
        self,
        index: PairsIndex,
        directions: Sequence[Direction],
        settings: BatchSettings,
        num_symbols: int,
        seed: int,
    ) -> None:
        self.directions = [direction for direction in directions if index.size(direction)]
        if not self.directions:
            raise CorpusError("None of the directions has any sentence pair.")
        self.index, self.seed = index, seed
        numbers = [index.numbers[direction] for direction in self.directions]
        sizes = {direction: index.size(direction) for direction in self.directions}
        self.sizes_D, self.counts_D = np.array(list(sizes.values())), settings.epoch_counts(sizes)
        self._buckets = _make_buckets(index, numbers, self.counts_D / self.sizes_D, settings, num_symbols)
        self._epoch = lru_cache(maxsize=2)(self._make_epoch)

    def num_batches(self, epoch: int) -> int:
        """How many batches an epoch has; the rest of the draws makes it differ a little from epoch to epoch."""
        return int(self._epoch(epoch).batches_K[-1])

    def drawn(self, num_batches: int) -> tuple[float, npt.NDArray[np.float64]]:
        """How many epochs the first so many batches are, and how many pairs of each direction are in them."""
        epoch, left = 0, num_batches
        while left >= (size := self.num_batches(epoch)):
            epoch, left = epoch + 1, left - size
        last_D = self.counts_D * (left / size)
        if last_D.sum() <= COUNTED:
            last_D = np.bincount(self.entries(epoch, 0, left).direction, minlength=len(last_D)).astype(np.float64)
        return epoch + left / size, epoch * self.counts_D + last_D

    def entries(self, epoch: int, first: int, last: int) -> Entries:
        """The sentence pairs of the batches from first to last (exclusive) of an epoch."""
        now, buckets = self._epoch(epoch), self._buckets
        number = permute(np.arange(first, last), self.num_batches(epoch), mix(self.seed, epoch, BATCHES))
        bucket = np.searchsorted(now.batches_K, number, side="right")
        draws, batches = now.draws_K[bucket], np.diff(now.batches_K, prepend=0)[bucket]
        place = number - (now.batches_K[bucket] - batches)
        begin, end = place * draws // batches, (place + 1) * draws // batches  # all batches of a bucket alike
        starts = np.concatenate([[0], np.cumsum(end - begin)])
        of_bucket = np.repeat(bucket, end - begin)
        position = np.arange(starts[-1]) + np.repeat(begin - starts[:-1], end - begin)

        draw = permute(position, now.draws_K[of_bucket], mix(self.seed, epoch, PAIRS, of_bucket))
        draw += (np.cumsum(now.draws_K) - now.draws_K)[of_bucket]
        found = np.searchsorted(now.ends_KD, draw, side="right")
        direction = found - of_bucket * len(self.directions)
        draw -= np.where(found > 0, now.ends_KD[found - 1], 0)
        size = buckets.sizes_DK[direction, of_bucket]
        chosen = permute(draw % size, size, mix(self.seed, epoch, CHOSEN, of_bucket, direction))

        pairs_N2 = self.index.pairs_P2[buckets.starts_DK[direction, of_bucket] + chosen]
        return Entries(direction, pairs_N2[:, 0], pairs_N2[:, 1], starts)

    def _make_epoch(self, epoch: int) -> _Epoch:
        """Every pair is drawn `whole` times, and `rest` of a direction once more, spread evenly over its buckets."""
        whole_D, rest_D = self.counts_D // self.sizes_D, self.counts_D % self.sizes_D
        through_DK = np.cumsum(self._buckets.sizes_DK, axis=1)
        shift_D = (mix(self.seed, epoch, np.arange(len(self.sizes_D))) % self.sizes_D.astype(np.uint64)).astype(
            np.int64
        )
        rest_DK = (through_DK * rest_D[:, None] + shift_D[:, None]) // self.sizes_D[:, None]
        draws_DK = self._buckets.sizes_DK * whole_D[:, None] + np.diff(rest_DK, axis=1, prepend=0)
        draws_K = draws_DK.sum(axis=0)
        batches_K = -(-draws_K // self._buckets.most_K)
        return _Epoch(draws_K, np.cumsum(draws_DK.T), np.cumsum(batches_K))


def _make_buckets(
    index: PairsIndex, numbers: list[int], weight_D: AnyInts, settings: BatchSettings, num_symbols: int
) -> _Buckets:
    """Join neighbouring cells into buckets."""
    max_tokens = settings.max_tokens
    cells, column = np.unique(index.cells_C4[:, 1], return_inverse=True)
    counts_DC = np.zeros((len(index.numbers), len(cells)), dtype=np.int64)
    counts_DC[index.cells_C4[:, 0], column] = index.cells_C4[:, 2]
    counts_DC = counts_DC[numbers]
    longest_C = np.zeros(len(cells), dtype=np.int64)
    np.maximum.at(longest_C, column, index.cells_C4[:, 3])
    expected_C = weight_D @ counts_DC
    longest_C = np.where(expected_C > 0, longest_C + num_symbols, 0)
    if longest_C.max() > max_tokens:
        raise SettingsError(
            f"batches.max_tokens: {max_tokens} is smaller than the longest sentence ({longest_C.max()} tokens). "
            f"Raise it, or lower cleaning.max_subwords and prepare again."
        )
    if settings.mixes_lengths:
        ends = [len(cells)]
    else:
        level_C = np.sqrt(cells).astype(np.int64)  # of the longer side, see `cells_of`
        may_end_C = np.diff(level_C, append=-1) != 0 if settings.alike == "longer" else np.ones_like(cells)
        ends = _cut(expected_C, longest_C, may_end_C, max_tokens)
    before_DC = np.concatenate([np.zeros((len(numbers), 1), dtype=np.int64), np.cumsum(counts_DC, axis=1)], axis=1)
    edges = np.array([0, *ends])
    starts_DK = index.starts[numbers][:, None] + before_DC[:, edges[:-1]]
    most_K = max_tokens // np.maximum.reduceat(longest_C, edges[:-1])
    if settings.mixes_lengths:
        most_K = np.array([_most(expected_C, [side + num_symbols for side in lengths_of(cells)], max_tokens)])
    return _Buckets(np.diff(before_DC[:, edges], axis=1), starts_DK, most_K)


def _most(expected_C: AnyInts, lengths: list[IntArray], max_tokens: int) -> int:
    """How many sentence pairs drawn at random have together at most so many tokens on each side, but for rare cases."""
    numbers = []
    for length_C in lengths:
        mean = np.average(length_C, weights=expected_C)
        deviation = np.sqrt(np.average((length_C - mean) ** 2, weights=expected_C))
        # the n with n mean + 3 sqrt(n) deviation = max_tokens
        root = (np.sqrt(9 * deviation**2 + 4 * mean * max_tokens) - 3 * deviation) / (2 * mean)
        numbers.append(int(root**2))
    return max(1, min(numbers))


def _cut(expected_C: AnyInts, longest_C: IntArray, may_end_C: AnyInts, max_tokens: int) -> list[int]:
    """Where buckets end, if each is to make at least two batches and these are to be nearly full."""
    ends = []
    drawn, longest = 0.0, 1
    cells = zip(expected_C.tolist(), longest_C.tolist(), may_end_C.tolist(), strict=True)
    for cell, (number, length, may_end) in enumerate(cells, start=1):
        drawn, longest = drawn + number, max(longest, length)
        batches = drawn / (max_tokens // longest)
        if may_end and batches >= 2 and batches / np.ceil(batches) > 0.9:
            ends.append(cell)
            drawn, longest = 0.0, 1
    return [*ends, len(expected_C)] if drawn else [*ends[:-1], len(expected_C)]
