"""The pair index: the sentence pairs of each training direction, ordered by length.

Sentence lengths are divided into levels. A cell is a pair of levels, one for the longer side and one for the shorter
side, and the sentence pairs of a direction are ordered by cell. A range of cells is therefore a slice of the index, and
finding sentences of similar length takes arithmetic instead of sorting.

Shape letters: P sentence pairs, C cells.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from manyglot.batches.array_files import (
    AnyInts,
    IntArray,
    add_array_header,
    all_chunks,
    load_memory_mapped,
    save_array,
)
from manyglot.batches.token_store import TokenStore
from manyglot.corpus.cleaning import NO_CLEANING, CleaningSettings, DropReason, find_clean_pairs
from manyglot.corpus.languages import Direction, Languages
from manyglot.corpus.prepared_text import damaged_data
from manyglot.errors import FolderError
from manyglot.files import read_json

PAIR_INDEX_FILES = ("pairs.npy", "pair_starts.npy", "cells.npy", "pairs.json")

NUM_EXACT_LEVELS, LEVEL_GROWTH, NUM_LEVELS = 24, 1.04, 300
"""Each length below NUM_EXACT_LEVELS is a level; above, lengths grow by a factor of LEVEL_GROWTH per level."""
LEVEL_MAX_LENGTHS = np.concatenate(
    [
        np.arange(NUM_EXACT_LEVELS),
        NUM_EXACT_LEVELS * LEVEL_GROWTH ** np.arange(NUM_LEVELS - NUM_EXACT_LEVELS, dtype=np.float64),
    ]
)
"""Maximum length of each level."""


def length_cell_ids(source_lengths: IntArray, target_lengths: IntArray) -> IntArray:
    """Return the cell of each sentence pair. Cells are numbered so that neighbors have similar lengths.

    Within each level of the longer side, the pairs with a longer source come first, from short to long targets; then
    those with a longer target, from long to short sources.
    """
    source_level = np.searchsorted(LEVEL_MAX_LENGTHS, source_lengths)
    target_level = np.searchsorted(LEVEL_MAX_LENGTHS, target_lengths)
    longer_level = np.maximum(source_level, target_level)
    offset = np.where(source_level >= target_level, target_level, 2 * longer_level - source_level)
    return longer_level * longer_level + offset


def cell_length_bounds(cell: IntArray) -> tuple[IntArray, IntArray]:
    """Return the maximum source and target length of each cell."""
    longer_level = np.sqrt(cell).astype(np.int64)
    offset = cell - longer_level * longer_level
    source_level = np.where(offset <= longer_level, longer_level, 2 * longer_level - offset)
    target_level = np.minimum(offset, longer_level)
    return tuple(np.floor(LEVEL_MAX_LENGTHS[level]).astype(np.int64) for level in (source_level, target_level))


class PairIndex:
    """The sentence pairs of each direction of a token store, ordered by cell."""

    def __init__(self, store: TokenStore) -> None:
        """Open the index of a store; raise a FolderError if it is damaged."""
        self.store, folder = store, store.folder
        self.direction_ids = _read_directions(folder / "pairs.json", store.languages)
        self.pairs_P2 = load_memory_mapped(folder / "pairs.npy", (np.uint32,), num_columns=2)
        self.starts = load_memory_mapped(folder / "pair_starts.npy", (np.int64,))
        self.cells_C4 = load_memory_mapped(folder / "cells.npy", (np.int64,), num_columns=4)
        self._check_starts()
        self._check_cells()
        self._check_pairs()

    def _check_starts(self) -> None:
        starts, num_directions = self.starts, len(self.direction_ids)
        if len(starts) != num_directions + 1 or starts[0] != 0 or (np.diff(starts) < 0).any():
            raise damaged_data(self.store.folder / "pair_starts.npy", "it does not divide the pairs by direction")
        if starts[-1] != len(self.pairs_P2):
            raise damaged_data(self.store.folder / "pairs.npy", f"it should have {starts[-1]} pairs")

    def _check_cells(self) -> None:
        """Check that the cells of each direction ascend, fit their longest sentence and have all its pairs."""
        direction, cell, num_pairs, longest = self.cells_C4.T
        is_valid = bool(
            ((direction >= 0) & (direction < len(self.direction_ids))).all()
            and ((cell >= 0) & (cell < NUM_LEVELS**2)).all()
            and (np.searchsorted(LEVEL_MAX_LENGTHS, longest) == np.sqrt(cell).astype(np.int64)).all()
            and ((num_pairs > 0) & (num_pairs <= len(self.pairs_P2))).all()
            and (np.diff(direction * NUM_LEVELS**2 + cell) > 0).all()
        )
        if is_valid:
            num_pairs_D = np.zeros(len(self.direction_ids), dtype=np.int64)
            np.add.at(num_pairs_D, direction, num_pairs)
            is_valid = np.array_equal(num_pairs_D, np.diff(self.starts))
        if not is_valid:
            raise damaged_data(self.store.folder / "cells.npy", "its cells do not match the pairs")

    def _check_pairs(self) -> None:
        """Check that both sides of each pair are sentences in the languages of its direction."""
        ranges = [[self.store.sentence_range(code) for code in direction] for direction in self.direction_ids]
        first_D2, stop_D2 = (
            np.array([[getattr(side, end) for side in sides] for sides in ranges], dtype=np.int64).reshape(-1, 2)
            for end in ("start", "stop")
        )

        def are_in_their_languages(i: int, j: int) -> bool:
            starts, stops, pairs_P2 = self.starts[:-1], self.starts[1:], self.pairs_P2[i:j]
            directions = np.flatnonzero((starts < j) & (stops > i) & (starts < stops))
            segments = np.maximum(starts[directions] - i, 0)
            return all(
                (np.minimum.reduceat(pairs_P2[:, side], segments) >= first_D2[directions, side]).all()
                and (np.maximum.reduceat(pairs_P2[:, side], segments) < stop_D2[directions, side]).all()
                for side in (0, 1)
            )

        if not all_chunks(are_in_their_languages, len(self.pairs_P2)):
            raise damaged_data(self.store.folder / "pairs.npy", "it has pairs of other languages")

    def pair_indices(self, direction: Direction) -> AnyInts:
        """Return the sentence pairs of a direction: source and target indices in the token store."""
        row = self._direction_id(direction)
        return self.pairs_P2[int(self.starts[row]) : int(self.starts[row + 1])]

    def _direction_id(self, direction: Direction) -> int:
        if direction not in self.direction_ids:
            raise damaged_data(self.store.folder / "pairs.json", f"it lacks {direction}")
        return self.direction_ids[direction]

    def num_pairs(self, direction: Direction) -> int:
        """Count the sentence pairs of a direction."""
        row = self._direction_id(direction)
        return int(self.starts[row + 1] - self.starts[row])


def _read_directions(path: Path, languages: Languages) -> dict[Direction, int]:
    """Read the directions of an index and number them."""
    try:
        directions = [Direction(*codes) for codes in read_json(path)]
        if all(source in languages and target in languages for source, target in directions):
            return {direction: number for number, direction in enumerate(directions)}
    except (FolderError, TypeError):
        pass
    raise damaged_data(path, "it does not list directions")


def clean_and_write_pair_index(
    store: TokenStore,
    directions: Sequence[Direction],
    cleaning: CleaningSettings = NO_CLEANING,
    heldout_stores: Sequence[TokenStore] = (),
) -> dict[str, dict[DropReason, IntArray]]:
    """Write the index of the given directions; return the dropped pairs of each language pair, by reason.

    If the cleaning settings ask for it, pairs with a sentence of the held-out stores (dev and test) are dropped.
    """
    cells, starts = [], [0]
    dropped: dict[str, dict[DropReason, IntArray]] = {}
    filter_inputs = _PairFilterInputs(store, heldout_stores, cleaning)
    with (store.folder / "pairs.raw").open("wb") as file:  # all pairs together may not fit into memory
        for direction_id, direction in enumerate(directions):
            source, target = store.translation_pairs(*direction)
            lengths = store.lengths(source), store.lengths(target)
            hashes, is_heldout = filter_inputs.hashes_and_heldout(direction, source, target)
            is_kept, dropped_rows = find_clean_pairs(lengths, hashes, is_heldout, cleaning)
            for reason, rows in dropped_rows.items():
                language_pair = dropped.setdefault("-".join(sorted(direction)), {})
                # Both directions of a language pair drop the same pairs, so the first one counts.
                language_pair.setdefault(reason, np.stack([source[rows], target[rows]], axis=1))
            source, target, lengths = source[is_kept], target[is_kept], (lengths[0][is_kept], lengths[1][is_kept])
            cell = length_cell_ids(*lengths)
            order = np.argsort(cell, kind="stable")
            file.write(np.stack([source[order], target[order]], axis=1).astype(np.uint32).data)
            cells.append(_cell_table(direction_id, cell[order], np.maximum(*lengths)[order]))
            starts.append(starts[-1] + len(order))
    add_array_header(store.folder / "pairs.raw", (starts[-1], 2), np.uint32)
    save_array(store.folder / "pair_starts.npy", np.array(starts, dtype=np.int64))
    save_array(store.folder / "cells.npy", np.concatenate(cells) if cells else np.zeros((0, 4), dtype=np.int64))
    (store.folder / "pairs.json").write_text(json.dumps(directions), encoding="utf-8")
    return dropped


class _PairFilterInputs:
    """The inputs of `find_clean_pairs` besides lengths, computed only if the cleaning settings need them."""

    def __init__(self, store: TokenStore, heldout_stores: Sequence[TokenStore], cleaning: CleaningSettings) -> None:
        self.store, self.heldout_stores, self.cleaning = store, heldout_stores, cleaning
        self._hashes = lru_cache(maxsize=2)(self._make_hashes)  # the central language stays cached, the others change

    def hashes_and_heldout(self, direction: Direction, *sides: IntArray) -> tuple[Any, Any]:
        """Return hashes of the sentences of both sides and whether they are held out; None where not needed."""
        local = [side - self.store.sentence_range(code).start for code, side in zip(direction, sides, strict=True)]
        hashes = is_heldout = None
        if self.cleaning.deduplicate_pairs:
            hashes = tuple(self._hashes(code)[0][side] for code, side in zip(direction, local, strict=True))
        if self.cleaning.drop_heldout_overlap:
            is_heldout = tuple(self._hashes(code)[1][side] for code, side in zip(direction, local, strict=True))
        return hashes, is_heldout

    def _make_hashes(self, code: str) -> tuple[Any, Any]:
        hashes = self.store.hashes(self.store.sentence_range(code))
        heldout_hashes = [heldout.hashes(heldout.sentence_range(code)) for heldout in self.heldout_stores]
        if not heldout_hashes:
            return hashes, np.zeros(len(hashes), dtype=np.bool_)
        return hashes, np.isin(hashes, np.concatenate(heldout_hashes))


def _cell_table(direction: int, cell: IntArray, longest: IntArray) -> IntArray:
    """Return a row for each cell of a direction: direction, cell, number of pairs, length of the longest sentence."""
    cells, first, counts = np.unique(cell, return_index=True, return_counts=True)
    max_lengths = np.maximum.reduceat(longest, first) if len(first) else first
    return np.stack([np.full_like(cells, direction), cells, counts, max_lengths], axis=1).astype(np.int64)
