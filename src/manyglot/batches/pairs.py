"""The pairs index: which sentences of a store translate each other, ordered by length, for the pairs trained on.

A pair of languages serves both directions. Its sentence pairs are ordered by cells: classes of similar length of the
longer and then of the shorter side. So a range of cells is a range of the index, and a batch of sentences of similar
length is a matter of arithmetic, not of sorting.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

import numpy as np

from manyglot.batches.store import AnyInts, IntArray, TokenStore, load_array
from manyglot.corpus.languages import Direction

EXACT, GROWTH, NUM_LEVELS = 24, 1.04, 300
"""Lengths up to EXACT are a level each; above, a level is this much longer than the one below."""
LEVELS = np.concatenate(
    [np.arange(EXACT), EXACT * GROWTH ** np.arange(NUM_LEVELS - EXACT, dtype=np.float64)]
)  # the longest of each level


def cells_of(lengths: IntArray, others: IntArray) -> IntArray:
    """The cell of each sentence pair: (level of the longer side, level of the shorter side), as one number."""
    high = np.searchsorted(LEVELS, np.maximum(lengths, others))
    low = np.searchsorted(LEVELS, np.minimum(lengths, others))
    return high * (high + 1) // 2 + low


class PairsIndex:
    """The sentence pairs of some pairs of languages."""

    def __init__(self, store: TokenStore) -> None:
        folder = store.folder
        codes = json.loads((folder / "pairs.json").read_text("utf-8"))
        self.store = store
        self.numbers = {(one, other): number for number, (one, other) in enumerate(codes)}
        self.pairs_P2, self.starts, self.cells_C4 = (
            load_array(folder / f"{name}.npy") for name in ("pairs", "pair_starts", "cells")
        )

    def number(self, direction: Direction) -> int:
        """The number of a direction's pair of languages."""
        one, other = sorted(direction)
        return self.numbers[one, other]

    def size(self, direction: Direction) -> int:
        """How many sentence pairs a direction has."""
        number = self.number(direction)
        return int(self.starts[number + 1] - self.starts[number])


def write_pairs(store: TokenStore, directions: Iterable[Direction]) -> PairsIndex:
    """Write the index of the pairs of languages that some directions need."""
    codes = sorted({(min(direction), max(direction)) for direction in directions})
    parts, cells, starts = [], [], [0]
    for number, (one, other) in enumerate(codes):
        first, second = store.pairs(one, other)
        lengths, others = store.lengths(first), store.lengths(second)
        cell = cells_of(lengths, others)
        order = np.argsort(cell, kind="stable")
        parts.append(np.stack([first[order], second[order]], axis=1).astype(np.uint32))
        cells.append(_cell_table(number, cell[order], np.maximum(lengths, others)[order]))
        starts.append(starts[-1] + len(order))
    empty: AnyInts = np.zeros((0, 2), dtype=np.uint32)
    np.save(store.folder / "pairs.npy", np.concatenate(parts) if parts else empty)
    np.save(store.folder / "pair_starts.npy", np.array(starts, dtype=np.int64))
    np.save(store.folder / "cells.npy", np.concatenate(cells) if cells else np.zeros((0, 4), dtype=np.int64))
    (store.folder / "pairs.json").write_text(json.dumps(codes), encoding="utf-8")
    return PairsIndex(store)


def _cell_table(pair: int, cell: IntArray, longest: IntArray) -> IntArray:
    """For each cell that a pair of languages has: pair, cell, number of sentence pairs, the longest sentence."""
    cells, first, counts = np.unique(cell, return_index=True, return_counts=True)
    most = np.maximum.reduceat(longest, first) if len(first) else first
    return np.stack([np.full_like(cells, pair), cells, counts, most], axis=1).astype(np.int64)
