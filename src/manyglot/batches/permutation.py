"""Pseudo-random permutations that are evaluated at single positions, without memory or state.

A position of range(n) is written as two digits (left, right), each with about sqrt(n) values. A Feistel network shifts
each digit by a hash of the other, six times. A result outside range(n) goes through the network again (cycle walking).
The permutation is the same on every machine.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

UInt64Array = npt.NDArray[np.uint64]
NUM_ROUNDS = 6


def hash_numbers(*parts: npt.ArrayLike) -> UInt64Array:
    """Hash integers with splitmix64; arrays are broadcast against each other."""
    state = np.uint64(0x9E3779B97F4A7C15)
    with np.errstate(over="ignore"):
        z: UInt64Array = np.asarray(state)
        for part in parts:
            z = (z ^ np.asarray(part, dtype=np.uint64)) + state
            z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            z = z ^ (z >> np.uint64(31))
    return z


def permuted_position(position: npt.ArrayLike, size: npt.ArrayLike, key: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """Return the image of each position under a permutation of range(size) that the key selects.

    Positions, sizes and keys are broadcast against each other.
    """
    start, end, keys = np.broadcast_arrays(*(np.asarray(a, dtype=np.uint64) for a in (position, size, key)))
    left_size = np.ceil(np.sqrt(end.astype(np.float64))).astype(np.uint64)
    right_size = (end + left_size - np.uint64(1)) // left_size
    image = _feistel_network(start, left_size, right_size, keys)
    while len(outside := np.flatnonzero(image >= end)):
        image[outside] = _feistel_network(image[outside], left_size[outside], right_size[outside], keys[outside])
    return image.astype(np.int64)


def _feistel_network(
    position: UInt64Array, left_size: UInt64Array, right_size: UInt64Array, key: UInt64Array
) -> UInt64Array:
    left, right = position // right_size, position % right_size
    for round_number in range(0, NUM_ROUNDS, 2):
        left = (left + hash_numbers(key, right, round_number) % left_size) % left_size
        right = (right + hash_numbers(key, left, round_number + 1) % right_size) % right_size
    return left * right_size + right
