from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from manyglot.batches.permutation import mix, permute


@given(st.integers(1, 3000), st.integers(0, 2**63))
def test_every_position_is_taken_once(size: int, key: int) -> None:
    assert sorted(permute(np.arange(size), size, key).tolist()) == list(range(size))


@given(st.lists(st.tuples(st.integers(1, 50), st.integers(0, 2**40)), min_size=1, max_size=20))
def test_sizes_and_keys_may_differ(places: list[tuple[int, int]]) -> None:
    sizes, keys = np.array(places).T
    together = permute(sizes - 1, sizes, keys)
    alone = [int(permute(np.array([size - 1]), size, key)[0]) for size, key in places]
    assert together.tolist() == alone


def test_orders_are_as_good_as_random() -> None:
    """Of 40 things, each is as often in each place; of 3, all orders come up."""
    counts = np.zeros((40, 40))
    for key in range(4000):
        counts[np.arange(40), permute(np.arange(40), 40, mix(1, key))] += 1
    assert counts.min() > 50  # the mean is 100, a standard deviation 10
    assert counts.max() < 150
    orders = Counter(tuple(permute(np.arange(3), 3, mix(2, key)).tolist()) for key in range(600))
    assert len(orders) == 6
    assert min(orders.values()) > 60


def test_neighbours_are_torn_apart() -> None:
    order = permute(np.arange(10_000), 10_000, 5)
    assert abs(np.corrcoef(order[:-1], order[1:])[0, 1]) < 0.05


def test_it_is_the_same_on_every_machine() -> None:
    assert permute(np.arange(8), 8, 1).tolist() == [2, 1, 7, 3, 5, 6, 0, 4]
    assert int(mix(1, 2, 3)) == 5246500226706903259
