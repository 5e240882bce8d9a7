"""The batch plan: the sentence pairs of every batch as a stateless function of seed, epoch and batch number.

Sentence pairs of similar length form buckets, which are ranges of cells of the pair index. Temperature sampling decides
how many pairs of each direction an epoch samples. Every pair of a direction is sampled equally often, except for a
remainder that is chosen at random. A pseudo-random permutation that can be evaluated at any position orders the samples
of each bucket, which are then cut into batches. Another one orders the batches of all buckets. Any process can
therefore compute any batch of any epoch directly, however large the corpus is.

Shape letters: D directions, K buckets, C cells.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
from pydantic import Field, field_validator

from manyglot.batches.array_files import AnyInts, IntArray
from manyglot.batches.pair_index import PairIndex, cell_length_bounds
from manyglot.batches.permutation import hash_numbers, permuted_position
from manyglot.config.base_settings import Settings
from manyglot.corpus.languages import Direction, Languages, parse_direction
from manyglot.corpus.temperature_sampling import temperature_pair_counts, weighted_pair_counts
from manyglot.errors import CorpusError, LanguageError, SettingsError, did_you_mean, shorten

K = TypeVar("K")

MAX_COUNTED_SAMPLES = 2**20
"""If an unfinished epoch has more samples than this, its counts by direction are estimated."""
MIN_WEIGHT, MAX_WEIGHT = 1e-6, 1e6
"""Bounds of a sampling weight."""
BATCH_ORDER, SAMPLE_ORDER, PAIR_CHOICE = range(3)
"""Keys that make the pseudo-random permutations independent of one another."""


class BatchSettings(Settings):
    """How sentence pairs are sampled and put into batches."""

    max_tokens: int = Field(4096, ge=1, le=2**24)
    """Batch size in tokens. Without bucketing, a batch has about this many tokens on each side. With bucketing, it
    limits the number of pairs times the length of the longest sentence, padding included."""
    temperature: float | None = Field(5.0, ge=0.1, le=1e6)
    """Sample directions in proportion to size^(1/temperature). null takes every pair exactly once per epoch."""
    bucket_by: Literal["longer", "both", "none"] = "none"
    """Length bucketing: which sentence pairs share a batch. none: pairs of all lengths, which trains best and costs
    nothing because training does not pad. longer: pairs whose longer sides have similar lengths, for code that pads.
    both: pairs in which both sides have similar lengths. This pads least, but batches differ much from one another."""
    direction_weights: dict[str, float] = Field(default_factory=dict)
    """Sampling weight per direction instead of the temperature, such as {en>de: 3}. Other directions have weight 1. An
    epoch has as many pairs as the corpus."""
    target_weights: dict[str, float] = Field(default_factory=dict)
    """Sampling weight per target language. {en: 0.25} samples English targets a quarter as often, for example to keep
    the model from memorizing them in a multi-way corpus. The length of an epoch does not change."""

    @field_validator("direction_weights", "target_weights")
    @classmethod
    def _check_positive(cls, weights: dict[str, float]) -> dict[str, float]:
        for name, weight in weights.items():
            if weight <= 0:
                hint = "To drop a direction, use corpus.exclude_directions."
                raise ValueError(f"the weight of {shorten(name)} must be above 0. {hint}")
            if not MIN_WEIGHT <= weight <= MAX_WEIGHT:
                raise ValueError(f"the weight of {shorten(name)} must be between {MIN_WEIGHT:g} and {MAX_WEIGHT:g}.")
        return weights

    @property
    def mixes_lengths(self) -> bool:
        """Whether batches mix sentences of all lengths, without bucketing."""
        return self.bucket_by == "none"

    def check_weights(self, directions: Iterable[Direction]) -> None:
        """Raise an error if a weight names an untrained direction or target, or if two weights name the same one."""
        directions = list(directions)
        self._weight_by_direction(directions)
        self._weight_by_target(directions)

    def pair_counts_per_epoch(self, sizes: Mapping[Direction, int]) -> IntArray:
        """Return how many pairs of each direction an epoch samples, given the number of pairs of each."""
        direction_weights, target_weights = self._weight_by_direction(sizes), self._weight_by_target(sizes)
        sizes_D = np.array(list(sizes.values()), dtype=np.int64)
        if direction_weights:
            weight_D = np.array([direction_weights.get(d, 1.0) for d in sizes])
            counts_D = weighted_pair_counts(sizes_D, weight_D)
        else:
            counts_D = temperature_pair_counts(sizes_D, self.temperature)
        if not target_weights:
            return counts_D
        target_weight_D = np.array([target_weights.get(d.target, 1.0) for d in sizes])
        return weighted_pair_counts(sizes_D, target_weight_D * counts_D, total=counts_D.sum())

    def _weight_by_direction(self, directions: Iterable[Direction]) -> dict[Direction, float]:
        known = {direction.as_setting(): direction for direction in directions}
        languages = Languages(code for direction in known.values() for code in direction)
        return _resolve_weights(
            "direction_weights",
            self.direction_weights,
            known,
            lambda name: parse_direction(name, languages).as_setting(),
        )

    def _weight_by_target(self, directions: Iterable[Direction]) -> dict[str, float]:
        known = {code: code for code in sorted({direction.target for direction in directions})}
        return _resolve_weights("target_weights", self.target_weights, known, Languages(known).find_code)


def _resolve_weights(
    setting: str, weights: Mapping[str, float], known: Mapping[str, K], find: Callable[[str], str]
) -> dict[K, float]:
    """Return the weights by direction or target language; the setting may name languages in any style."""
    resolved: dict[K, float] = {}
    for name, weight in weights.items():
        try:
            found = name if name in known else find(name)
        except LanguageError:
            found = name
        if found not in known:
            raise SettingsError(f"batches.{setting}: {shorten(name)} is not trained on. {did_you_mean(name, known)}")
        if known[found] in resolved:
            raise SettingsError(f"batches.{setting}: {shorten(name)} is {found}, which has a weight already. Keep one.")
        resolved[known[found]] = weight
    return resolved


@dataclass(frozen=True)
class PlannedPairs:
    """The sentence pairs of consecutive batches."""

    direction: IntArray
    """Index of the direction of each pair in `BatchPlan.directions`."""
    source: AnyInts
    """Indices of the source sentences in the token store."""
    target: AnyInts
    """Indices of the target sentences in the token store."""
    starts: IntArray
    """Batch i holds the pairs from starts[i] to starts[i + 1]."""

    def batch_slice(self, index: int) -> slice:
        """Return the slice that selects the pairs of one batch."""
        return slice(int(self.starts[index]), int(self.starts[index + 1]))


@dataclass(frozen=True)
class _Buckets:
    """Buckets of sentence pairs of similar length: ranges of cells."""

    sizes_DK: IntArray
    """Number of sentence pairs of each direction in each bucket."""
    starts_DK: IntArray
    """Position of the first of these pairs in the pair index."""
    batch_size_K: IntArray
    """Maximum number of sentence pairs per batch."""


@dataclass(frozen=True)
class _Epoch:
    """The samples and batches of one epoch."""

    num_samples_K: IntArray
    """Number of sentence pairs sampled from each bucket."""
    sample_ends_KD: IntArray
    """Cumulative number of samples after each bucket and direction, as one flat array."""
    batch_ends_K: IntArray
    """Cumulative number of batches after each bucket."""


class SeenData(NamedTuple):
    """The data in the first batches of a run."""

    num_epochs: float
    num_pairs_D: npt.NDArray[np.float64]
    """Number of sampled pairs of each direction; a pair that is sampled twice counts twice."""


class BatchPlan:
    """Maps an epoch and a batch number to sentence pairs."""

    def __init__(
        self,
        index: PairIndex,
        directions: Sequence[Direction],
        settings: BatchSettings,
        num_special_tokens: int,
        seed: int,
    ) -> None:
        self.directions = [direction for direction in directions if index.num_pairs(direction)]
        if not self.directions:
            raise CorpusError("No training direction has any sentence pairs.")
        self.index, self.seed = index, seed
        direction_ids = [index.direction_ids[direction] for direction in self.directions]
        sizes = {direction: index.num_pairs(direction) for direction in self.directions}
        self.sizes_D, self.samples_per_epoch_D = np.array(list(sizes.values())), settings.pair_counts_per_epoch(sizes)
        repetitions_D = self.samples_per_epoch_D / self.sizes_D
        self._buckets = _make_buckets(index, direction_ids, repetitions_D, settings, num_special_tokens)
        is_used_C = np.isin(index.cells_C4[:, 0], direction_ids)
        self.max_sentence_length = int(index.cells_C4[is_used_C, 3].max()) + num_special_tokens
        """The tokens of the longest sentence on either side, tags and </s> included."""
        self._epoch = lru_cache(maxsize=2)(self._make_epoch)

    def num_batches(self, epoch: int) -> int:
        """Count the batches of an epoch. The random remainder of the samples makes epochs differ slightly."""
        return int(self._epoch(epoch).batch_ends_K[-1])

    def data_in_first_batches(self, num_batches: int) -> SeenData:
        """Count the epochs and the pairs of each direction in the first `num_batches` batches of a run."""
        epoch, batches_left = 0, num_batches
        while batches_left >= (epoch_length := self.num_batches(epoch)):
            epoch, batches_left = epoch + 1, batches_left - epoch_length
        fraction = batches_left / epoch_length
        last_epoch_D = self.samples_per_epoch_D * fraction
        if last_epoch_D.sum() <= MAX_COUNTED_SAMPLES:
            pairs = self.planned_pairs(epoch, 0, batches_left)
            last_epoch_D = np.bincount(pairs.direction, minlength=len(last_epoch_D)).astype(np.float64)
        return SeenData(epoch + fraction, epoch * self.samples_per_epoch_D + last_epoch_D)

    def planned_pairs(self, epoch: int, first: int, last: int) -> PlannedPairs:
        """Return the sentence pairs of the batches from `first` to `last` (exclusive) of an epoch."""
        now, buckets = self._epoch(epoch), self._buckets
        batch_key = hash_numbers(self.seed, epoch, BATCH_ORDER)
        batch = permuted_position(np.arange(first, last), self.num_batches(epoch), batch_key)
        bucket = np.searchsorted(now.batch_ends_K, batch, side="right")
        num_samples, num_batches = now.num_samples_K[bucket], np.diff(now.batch_ends_K, prepend=0)[bucket]
        batch_in_bucket = batch - (now.batch_ends_K[bucket] - num_batches)
        begin = batch_in_bucket * num_samples // num_batches  # the batches of a bucket have nearly equal sizes
        end = (batch_in_bucket + 1) * num_samples // num_batches
        starts = np.concatenate([[0], np.cumsum(end - begin)])
        bucket_N = np.repeat(bucket, end - begin)
        position_N = np.arange(starts[-1]) + np.repeat(begin - starts[:-1], end - begin)

        sample_key_N = hash_numbers(self.seed, epoch, SAMPLE_ORDER, bucket_N)
        sample_N = permuted_position(position_N, now.num_samples_K[bucket_N], sample_key_N)
        sample_N += (np.cumsum(now.num_samples_K) - now.num_samples_K)[bucket_N]
        bucket_direction_N = np.searchsorted(now.sample_ends_KD, sample_N, side="right")
        direction_N = bucket_direction_N - bucket_N * len(self.directions)
        sample_N -= np.where(bucket_direction_N > 0, now.sample_ends_KD[bucket_direction_N - 1], 0)
        size_N = buckets.sizes_DK[direction_N, bucket_N]
        pair_key_N = hash_numbers(self.seed, epoch, PAIR_CHOICE, bucket_N, direction_N)
        pair_N = permuted_position(sample_N % size_N, size_N, pair_key_N)

        pairs_N2 = self.index.pairs_P2[buckets.starts_DK[direction_N, bucket_N] + pair_N]
        return PlannedPairs(direction_N, pairs_N2[:, 0], pairs_N2[:, 1], starts)

    def _make_epoch(self, epoch: int) -> _Epoch:
        """Sample every pair `whole` times, and `remainder` pairs of a direction once more, spread over its buckets."""
        whole_D, remainder_D = self.samples_per_epoch_D // self.sizes_D, self.samples_per_epoch_D % self.sizes_D
        size_ends_DK = np.cumsum(self._buckets.sizes_DK, axis=1)
        hash_D = hash_numbers(self.seed, epoch, np.arange(len(self.sizes_D)))
        shift_D = (hash_D % self.sizes_D.astype(np.uint64)).astype(np.int64)
        remainder_ends_DK = (size_ends_DK * remainder_D[:, None] + shift_D[:, None]) // self.sizes_D[:, None]
        remainder_DK = np.diff(remainder_ends_DK, axis=1, prepend=0)
        num_samples_DK = self._buckets.sizes_DK * whole_D[:, None] + remainder_DK
        num_samples_K = num_samples_DK.sum(axis=0)
        num_batches_K = -(-num_samples_K // self._buckets.batch_size_K)
        return _Epoch(num_samples_K, np.cumsum(num_samples_DK.T), np.cumsum(num_batches_K))


def _make_buckets(
    index: PairIndex, direction_ids: list[int], repetitions_D: AnyInts, settings: BatchSettings, num_special_tokens: int
) -> _Buckets:
    """Merge neighboring cells into buckets; `repetitions_D` is how often an epoch samples a pair on average."""
    max_tokens = settings.max_tokens
    cells, column = np.unique(index.cells_C4[:, 1], return_inverse=True)
    counts_DC = np.zeros((len(index.direction_ids), len(cells)), dtype=np.int64)
    counts_DC[index.cells_C4[:, 0], column] = index.cells_C4[:, 2]
    counts_DC = counts_DC[direction_ids]
    max_length_C = np.zeros(len(cells), dtype=np.int64)
    np.maximum.at(max_length_C, column, index.cells_C4[:, 3])
    num_samples_C = (repetitions_D[:, None] * counts_DC).sum(axis=0)  # `@` rounds differently on different processors
    max_length_C = np.where(num_samples_C > 0, max_length_C + num_special_tokens, 0)
    if max_length_C.max() > max_tokens:
        raise SettingsError(
            f"batches.max_tokens: {max_tokens} is smaller than the longest sentence ({max_length_C.max()} tokens). "
            f"Raise it, or lower cleaning.max_subwords and prepare again."
        )
    if settings.mixes_lengths:
        ends = [len(cells)]
    else:
        level_C = np.sqrt(cells).astype(np.int64)  # level of the longer side, see `length_cell_ids`
        may_end_C = np.diff(level_C, append=-1) != 0 if settings.bucket_by == "longer" else np.ones_like(cells)
        ends = _bucket_ends(num_samples_C, max_length_C, may_end_C, max_tokens)
    no_pairs_D1 = np.zeros((len(direction_ids), 1), dtype=np.int64)
    num_before_DC = np.concatenate([no_pairs_D1, np.cumsum(counts_DC, axis=1)], axis=1)
    edges = np.array([0, *ends])
    starts_DK = index.starts[direction_ids][:, None] + num_before_DC[:, edges[:-1]]
    batch_size_K = max_tokens // np.maximum.reduceat(max_length_C, edges[:-1])
    if settings.mixes_lengths:
        lengths = [side + num_special_tokens for side in cell_length_bounds(cells)]
        batch_size_K = np.array([_mixed_batch_size(num_samples_C, lengths, max_tokens)])
    return _Buckets(np.diff(num_before_DC[:, edges], axis=1), starts_DK, batch_size_K)


def _mixed_batch_size(num_samples_C: AnyInts, lengths: list[IntArray], max_tokens: int) -> int:
    """Return how many random pairs fit into `max_tokens` on each side, with a margin of 3 standard deviations."""
    batch_sizes = []
    for length_C in lengths:
        mean = np.average(length_C, weights=num_samples_C)
        deviation = np.sqrt(np.average((length_C - mean) ** 2, weights=num_samples_C))
        # Solve n * mean + 3 * sqrt(n) * deviation = max_tokens for sqrt(n).
        root = (np.sqrt(9 * deviation**2 + 4 * mean * max_tokens) - 3 * deviation) / (2 * mean)
        batch_sizes.append(int(root**2))
    return max(1, min(batch_sizes))


def _bucket_ends(num_samples_C: AnyInts, max_length_C: IntArray, may_end_C: AnyInts, max_tokens: int) -> list[int]:
    """Return the cells at which buckets end, so that each bucket makes at least two batches that are nearly full."""
    ends = []
    bucket_samples, bucket_length = 0.0, 1
    cells = zip(num_samples_C.tolist(), max_length_C.tolist(), may_end_C.tolist(), strict=True)
    for cell, (num_samples, length, may_end) in enumerate(cells, start=1):
        bucket_samples, bucket_length = bucket_samples + num_samples, max(bucket_length, length)
        num_batches = bucket_samples / (max_tokens // bucket_length)
        if may_end and num_batches >= 2 and num_batches / np.ceil(num_batches) > 0.9:
            ends.append(cell)
            bucket_samples, bucket_length = 0.0, 1
    return [*ends, len(num_samples_C)] if bucket_samples else [*ends[:-1], len(num_samples_C)]
