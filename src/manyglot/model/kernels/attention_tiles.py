"""The tiles of the attention kernels: their sizes, and the grouping of packed sentences into tiles.

A tile is the square of queries and keys that one kernel program processes. A group is a run of whole sentences that
fits into a tile on both sides. This module does not need Triton.

Shape letters: B sentences, G groups.
"""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar

import numpy as np

from manyglot.batches.array_files import IntArray

SHORT_TILE, LONG_TILE = 64, 128
"""Tokens along each side of a tile. A sentence longer than the long tile does not fit the kernels."""
SHORT_GROUPS_MULTIPLE, LONG_GROUPS_MULTIPLE = 512, 128
"""Padded group tables have a multiple of this many rows. An empty group costs next to nothing."""
VOCABULARY_MULTIPLE = 64
"""The output layer is padded to a multiple of this; otherwise its matrix products are several times slower."""

Table = TypeVar("Table")


class GroupTableColumns(NamedTuple, Generic[Table]):
    """The columns of a group table: the queries and the keys of a group, each from a first to an exclusive end."""

    first_query: Table
    end_query: Table
    first_key: Table
    end_key: Table


class TileGroups(NamedTuple, Generic[Table]):
    """One attention's group tables, whose columns are those of `GroupTableColumns`."""

    short_G4: Table
    """Groups of as many sentences as fit into a short tile."""
    long_G4: Table
    """Single sentences that need a long tile."""


def fits_tile(max_length: int) -> bool:
    """Whether the kernels can attend to sentences of up to this many tokens."""
    return max_length <= LONG_TILE


def empty_groups() -> TileGroups[IntArray]:
    """Return empty tables, for a batch that does not fit the kernels."""
    return TileGroups(_empty(0), _empty(0))


def group_into_tiles(query_length_B: IntArray, key_length_B: IntArray) -> TileGroups[IntArray]:
    """Group sentences greedily in their order: each group takes as many as fit into a short tile, but at least one."""
    start_query_B, start_key_B = (
        np.concatenate([[0], np.cumsum(length_B)]) for length_B in (query_length_B, key_length_B)
    )
    end_by_side = [np.searchsorted(s, s[:-1] + SHORT_TILE, side="right") - 1 for s in (start_query_B, start_key_B)]
    end_B = np.maximum(np.min(end_by_side, axis=0), np.arange(1, len(query_length_B) + 1)).tolist()
    edges = [0]
    while edges[-1] < len(end_B):
        edges.append(end_B[edges[-1]])
    query_G, key_G = start_query_B[edges], start_key_B[edges]
    span = GroupTableColumns(first_query=query_G[:-1], end_query=query_G[1:], first_key=key_G[:-1], end_key=key_G[1:])
    groups_G4 = np.stack(span, axis=1)
    is_long_G = np.maximum(np.diff(query_G), np.diff(key_G)) > SHORT_TILE
    return TileGroups(groups_G4[~is_long_G], groups_G4[is_long_G])


def pad_groups_to_multiple(groups: TileGroups[IntArray]) -> TileGroups[IntArray]:
    """Append empty groups to each table up to the next multiple.

    Neither table stays empty, or its kernel would be missing from a CUDA graph that another batch replays.
    """
    return TileGroups(
        _pad_rows(groups.short_G4, SHORT_GROUPS_MULTIPLE), _pad_rows(groups.long_G4, LONG_GROUPS_MULTIPLE)
    )


def _pad_rows(groups_G4: IntArray, multiple: int) -> IntArray:
    num_missing = -len(groups_G4) % multiple if len(groups_G4) else multiple
    return np.concatenate([groups_G4, _empty(num_missing)])


def _empty(num_groups: int) -> IntArray:
    return np.zeros((num_groups, len(GroupTableColumns._fields)), dtype=np.int64)
