"""The plan of an epoch: which sentence pairs, in which batches, in which order; a pure function of seed and epoch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from pydantic import Field

from manyglot.batches.store import IntArray, TokenStore
from manyglot.corpus.languages import Direction
from manyglot.corpus.sampling import epoch_counts
from manyglot.errors import CorpusError, SettingsError
from manyglot.settings import Settings


class BatchSettings(Settings):
    """How sentences are drawn and put together."""

    max_tokens: int = Field(4096, ge=1)
    """Size of a batch: sentences times the longest of them, source or target, padding included."""
    temperature: float | None = Field(5.0, gt=0)
    """Directions are drawn in proportion to size^(1/temperature); null takes every pair once an epoch."""


@dataclass(frozen=True)
class DirectedPairs:
    """The sentence pairs of one direction, as indices into the store."""

    direction: Direction
    source: IntArray
    target: IntArray
    length: IntArray
    """The longer side of each pair, symbols included."""


@dataclass(frozen=True)
class Plan:
    """An epoch: batches of (direction, pair) numbers."""

    direction: IntArray
    pair: IntArray
    starts: IntArray
    """Batch i holds the entries from starts[i] to starts[i + 1]."""

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, index: int) -> tuple[IntArray, IntArray]:
        entries = slice(self.starts[index], self.starts[index + 1])
        return self.direction[entries], self.pair[entries]


def directed_pairs(store: TokenStore, directions: Sequence[Direction], num_symbols: int) -> list[DirectedPairs]:
    """The pairs of each direction that has any; `num_symbols` stand beside the words of every sentence."""
    found = []
    for direction in directions:
        source, target = store.pairs(direction)
        if len(source):
            lengths = np.maximum(store[direction.source].lengths[source], store[direction.target].lengths[target])
            found.append(DirectedPairs(direction, source, target, lengths + num_symbols))
    if not found:
        raise CorpusError("None of the directions has any sentence pair.")
    return found


def check_budget(pairs: Sequence[DirectedPairs], settings: BatchSettings) -> None:
    """Refuse a budget that some sentence does not fit into."""
    longest = max(int(p.length.max()) for p in pairs)
    if longest > settings.max_tokens:
        raise SettingsError(
            f"batches.max_tokens: {settings.max_tokens} is smaller than the longest sentence ({longest} tokens). "
            f"Raise it, or lower cleaning.max_subwords and prepare again."
        )


def plan_epoch(pairs: Sequence[DirectedPairs], settings: BatchSettings, seed: int, epoch: int) -> Plan:
    """Draw the pairs of an epoch, put similar lengths into one batch, and shuffle the batches."""
    rng = np.random.default_rng((seed, epoch))
    counts = epoch_counts(np.array([len(p.source) for p in pairs]), settings.temperature)
    direction = np.repeat(np.arange(len(pairs)), counts)
    drawn = [_draw(rng, len(p.source), n) for p, n in zip(pairs, counts, strict=True)]
    pair = np.concatenate(drawn)
    length = np.concatenate([p.length[d] for p, d in zip(pairs, drawn, strict=True)])

    mixed = rng.permutation(len(pair))
    order = mixed[np.argsort(length[mixed], kind="stable")]
    bounds = _cut(length[order], settings.max_tokens)
    batches = rng.permutation(len(bounds) - 1)
    entries = np.concatenate([np.arange(bounds[b], bounds[b + 1]) for b in batches])
    starts = np.concatenate([[0], np.cumsum(np.diff(bounds)[batches])])
    return Plan(direction[order][entries], pair[order][entries], starts)


def _draw(rng: np.random.Generator, size: int, count: int) -> IntArray:
    """Draw `count` of `size` pairs: each as often as possible alike, the remainder at random."""
    whole = np.tile(np.arange(size), count // size)
    return np.concatenate([whole, rng.choice(size, count % size, replace=False)]).astype(np.int64)


def _cut(lengths: IntArray, max_tokens: int) -> IntArray:
    """Cut sentences, sorted by length, into batches that keep the budget; return where each begins, and the end."""
    starts = [0]
    for i, length in enumerate(lengths.tolist()):
        if (i + 1 - starts[-1]) * length > max_tokens:
            starts.append(i)
    return np.array([*starts, len(lengths)])
