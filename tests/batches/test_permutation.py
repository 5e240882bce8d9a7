from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from manyglot.batches.permutation import hash_numbers, permuted_position


@given(st.integers(1, 3000), st.integers(0, 2**63))
def test_it_is_a_permutation(size: int, key: int) -> None:
    assert sorted(permuted_position(np.arange(size), size, key).tolist()) == list(range(size))


@given(st.lists(st.tuples(st.integers(1, 50), st.integers(0, 2**40)), min_size=1, max_size=20))
def test_sizes_and_keys_may_differ(places: list[tuple[int, int]]) -> None:
    sizes, keys = np.array(places).T
    together = permuted_position(sizes - 1, sizes, keys)
    alone = [int(permuted_position(np.array([size - 1]), size, key)[0]) for size, key in places]
    assert together.tolist() == alone


def test_permutations_look_random() -> None:
    """Each of 40 items is equally often in each position, and all orders of 3 items occur."""
    counts = np.zeros((40, 40))
    for key in range(4000):
        counts[np.arange(40), permuted_position(np.arange(40), 40, hash_numbers(1, key))] += 1
    assert counts.min() > 50  # the mean is 100, a standard deviation 10
    assert counts.max() < 150
    orders = Counter(tuple(permuted_position(np.arange(3), 3, hash_numbers(2, key)).tolist()) for key in range(600))
    assert len(orders) == 6
    assert min(orders.values()) > 60


def test_neighboring_positions_are_separated() -> None:
    order = permuted_position(np.arange(10_000), 10_000, 5)
    assert abs(np.corrcoef(order[:-1], order[1:])[0, 1]) < 0.05


def test_permutation_and_hash_are_fixed() -> None:
    assert permuted_position(np.arange(8), 8, 1).tolist() == [2, 1, 7, 3, 5, 6, 0, 4]
    assert int(hash_numbers(1, 2, 3)) == 5246500226706903259
