"""Pseudo-random permutations that are computed one position at a time: no memory, no state, the same on every machine.

A position of range(n) is written as a pair of digits (left, right) with as many values as the square root of n, and
each digit is shifted by a hash of the other, six times (a Feistel network). The few pairs beyond n are walked on.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.uint64]
ROUNDS = 6


def mix(*parts: npt.ArrayLike) -> Numbers:
    """A hash of numbers (splitmix64), of whole arrays at once."""
    state = np.uint64(0x9E3779B97F4A7C15)
    with np.errstate(over="ignore"):
        z: Numbers = np.asarray(state)
        for part in parts:
            z = (z ^ np.asarray(part, dtype=np.uint64)) + state
            z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            z = z ^ (z >> np.uint64(31))
    return z


def permute(position: npt.ArrayLike, size: npt.ArrayLike, key: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """Where a permutation of range(size) takes each position; another key is another permutation.

    Sizes and keys may differ from position to position.
    """
    start, end, keys = np.broadcast_arrays(*(np.asarray(a, dtype=np.uint64) for a in (position, size, key)))
    left_size = np.ceil(np.sqrt(end.astype(np.float64))).astype(np.uint64)
    right_size = (end + left_size - np.uint64(1)) // left_size
    place = _shuffle_once(start, left_size, right_size, keys)
    while len(beyond := np.flatnonzero(place >= end)):
        place[beyond] = _shuffle_once(place[beyond], left_size[beyond], right_size[beyond], keys[beyond])
    return place.astype(np.int64)


def _shuffle_once(place: Numbers, left_size: Numbers, right_size: Numbers, key: Numbers) -> Numbers:
    left, right = place // right_size, place % right_size
    for number in range(0, ROUNDS, 2):
        left = (left + mix(key, right, number) % left_size) % left_size
        right = (right + mix(key, left, number + 1) % right_size) % right_size
    return left * right_size + right
