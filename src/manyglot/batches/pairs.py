"""The pairs index: which sentences of a store translate each other, ordered by length, for the directions trained on.

The sentence pairs of a direction are ordered by cells: classes of similar length of the longer side, and within them of
the shorter one. So a range of cells is a range of the index, and a batch of sentences of similar length is a matter of
arithmetic, not of sorting.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from manyglot.batches.store import AnyInts, IntArray, TokenStore, load_array
from manyglot.corpus.cleaning import NOTHING, CleaningSettings, DropReason, keep_pairs
from manyglot.corpus.languages import Direction

EXACT, GROWTH, NUM_LEVELS = 24, 1.04, 300
"""Lengths up to EXACT are a level each; above, a level is this much longer than the one below."""
LEVELS = np.concatenate(
    [np.arange(EXACT), EXACT * GROWTH ** np.arange(NUM_LEVELS - EXACT, dtype=np.float64)]
)  # the longest of each level


def cells_of(source: IntArray, target: IntArray) -> IntArray:
    """The cell of each sentence pair by its lengths, numbered so that neighbours are alike.

    For each level of the longer side: the source longer and the target from short to long, then the target longer and
    the source from long to short.
    """
    source_level, target_level = np.searchsorted(LEVELS, source), np.searchsorted(LEVELS, target)
    high = np.maximum(source_level, target_level)
    place = np.where(source_level >= target_level, target_level, 2 * high - source_level)
    return high * high + place


def lengths_of(cell: IntArray) -> tuple[IntArray, IntArray]:
    """The most tokens that source and target have in a cell."""
    high = np.sqrt(cell).astype(np.int64)
    place = cell - high * high
    source_level, target_level = np.where(place <= high, high, 2 * high - place), np.minimum(place, high)
    return tuple(np.floor(LEVELS[level]).astype(np.int64) for level in (source_level, target_level))


class PairsIndex:
    """The sentence pairs of some directions."""

    def __init__(self, store: TokenStore) -> None:
        folder = store.folder
        self.store = store
        names = json.loads((folder / "pairs.json").read_text("utf-8"))
        self.numbers = {Direction(*name): number for number, name in enumerate(names)}
        self.pairs_P2, self.starts, self.cells_C4 = (
            load_array(folder / f"{name}.npy") for name in ("pairs", "pair_starts", "cells")
        )

    def pairs_of(self, direction: Direction) -> AnyInts:
        """The sentence pairs of a direction, source and target."""
        number = self.numbers[direction]
        return self.pairs_P2[int(self.starts[number]) : int(self.starts[number + 1])]

    def size(self, direction: Direction) -> int:
        """How many sentence pairs a direction has."""
        number = self.numbers[direction]
        return int(self.starts[number + 1] - self.starts[number])


def write_pairs(
    store: TokenStore,
    directions: Sequence[Direction],
    cleaning: CleaningSettings = NOTHING,
    others: Sequence[TokenStore] = (),
) -> dict[str, dict[DropReason, IntArray]]:
    """Write the index of some directions; return the pairs of each two languages that were left out, by reason.

    The stores of dev and test are needed to leave out what is in them.
    """
    cells, starts = [], [0]
    dropped: dict[str, dict[DropReason, IntArray]] = {}
    facts = _Facts(store, others, cleaning)
    with (store.folder / "pairs.raw").open("wb") as file:  # the whole may be larger than the memory
        for number, direction in enumerate(directions):
            source, target = store.pairs(*direction)
            lengths = store.lengths(source), store.lengths(target)
            kept, reasons = keep_pairs(lengths, *facts.of(direction, source, target), cleaning)
            for reason, numbers in reasons.items():
                left_out = dropped.setdefault("-".join(sorted(direction)), {})
                left_out.setdefault(reason, np.stack([source[numbers], target[numbers]], axis=1))  # both ways alike
            source, target, lengths = source[kept], target[kept], (lengths[0][kept], lengths[1][kept])
            cell = cells_of(*lengths)
            order = np.argsort(cell, kind="stable")
            np.stack([source[order], target[order]], axis=1).astype(np.uint32).tofile(file)
            cells.append(_cell_table(number, cell[order], np.maximum(*lengths)[order]))
            starts.append(starts[-1] + len(order))
    _to_npy(store.folder / "pairs.raw", (starts[-1], 2))
    np.save(store.folder / "pair_starts.npy", np.array(starts, dtype=np.int64))
    np.save(store.folder / "cells.npy", np.concatenate(cells) if cells else np.zeros((0, 4), dtype=np.int64))
    (store.folder / "pairs.json").write_text(json.dumps(directions), encoding="utf-8")
    return dropped


class _Facts:
    """What the cleaning of pairs asks about sentences beside their lengths, worked out when it is asked for."""

    def __init__(self, store: TokenStore, others: Sequence[TokenStore], cleaning: CleaningSettings) -> None:
        self.store, self.others, self.cleaning = store, others, cleaning
        self._hashes = lru_cache(maxsize=2)(self._make_hashes)  # English stays while the others change

    def of(self, direction: Direction, *sides: IntArray) -> tuple[Any, Any]:
        """Hashes, and whether a sentence is in the other stores, of both sides; nothing where it is not asked for."""
        local = [side - self.store.sentences(code).start for code, side in zip(direction, sides, strict=True)]
        hashes = known = None
        if self.cleaning.deduplicate:
            hashes = tuple(self._hashes(code)[0][side] for code, side in zip(direction, local, strict=True))
        if self.cleaning.drop_overlap:
            known = tuple(self._hashes(code)[1][side] for code, side in zip(direction, local, strict=True))
        return hashes, known

    def _make_hashes(self, code: str) -> tuple[Any, Any]:
        mine = self.store.hashes(self.store.sentences(code))
        theirs = [other.hashes(other.sentences(code)) for other in self.others]
        return mine, np.isin(mine, np.concatenate(theirs)) if theirs else np.zeros(len(mine), dtype=np.bool_)


def _to_npy(raw: Path, shape: tuple[int, int]) -> None:
    """Put numpy's header before an array's bytes."""
    with raw.with_suffix(".npy").open("wb") as file, raw.open("rb") as content:
        header = {"descr": np.lib.format.dtype_to_descr(np.dtype(np.uint32)), "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(file, header)
        shutil.copyfileobj(content, file, 2**24)
    raw.unlink()


def _cell_table(direction: int, cell: IntArray, longest: IntArray) -> IntArray:
    """For each cell that a direction has: direction, cell, number of sentence pairs, the longest sentence."""
    cells, first, counts = np.unique(cell, return_index=True, return_counts=True)
    most = np.maximum.reduceat(longest, first) if len(first) else first
    return np.stack([np.full_like(cells, direction), cells, counts, most], axis=1).astype(np.int64)
