from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from manyglot.batches.plan import BatchSettings, DirectedPairs, check_budget, plan_epoch
from manyglot.corpus.languages import Direction
from manyglot.errors import SettingsError

LENGTHS = st.lists(st.lists(st.integers(2, 30), min_size=1, max_size=60), min_size=1, max_size=5)


def directed(lengths: list[list[int]]) -> list[DirectedPairs]:
    return [
        DirectedPairs(Direction("de", f"l{i}"), np.arange(len(each)), np.arange(len(each)), np.array(each))
        for i, each in enumerate(lengths)
    ]


@given(LENGTHS, st.integers(30, 200), st.integers(0, 5))
def test_a_plan_holds_each_pair_once_and_keeps_the_budget(lengths: list[list[int]], budget: int, epoch: int) -> None:
    settings = BatchSettings(max_tokens=budget, temperature=None)
    plan = plan_epoch(directed(lengths), settings, seed=1, epoch=epoch)
    entries = [entry for i in range(len(plan)) for entry in zip(*(part.tolist() for part in plan[i]), strict=True)]
    assert sorted(entries) == [(d, p) for d, each in enumerate(lengths) for p in range(len(each))]
    for i in range(len(plan)):
        longest = max(lengths[d][p] for d, p in zip(*plan[i], strict=True))
        assert 0 < longest * len(plan[i][0]) <= budget


@given(LENGTHS, st.integers(0, 3))
def test_a_plan_is_a_pure_function_of_seed_and_epoch(lengths: list[list[int]], epoch: int) -> None:
    settings = BatchSettings(max_tokens=60)
    one, two = (plan_epoch(directed(lengths), settings, 7, epoch) for _ in range(2))
    for part in ("direction", "pair", "starts"):
        np.testing.assert_array_equal(getattr(one, part), getattr(two, part))


def test_epochs_and_seeds_differ() -> None:
    lengths = [[5] * 100, [6] * 100]
    orders = {
        tuple(plan_epoch(directed(lengths), BatchSettings(max_tokens=60), seed, epoch).pair.tolist())
        for seed, epoch in ((1, 0), (1, 1), (2, 0))
    }
    assert len(orders) == 3


def test_small_directions_are_seen_more_often_and_evenly() -> None:
    plan = plan_epoch(directed([[5] * 1000, [5] * 10]), BatchSettings(max_tokens=100, temperature=5.0), 1, 0)
    small = np.bincount(plan.pair[plan.direction == 1])
    assert small.sum() > 300
    assert small.max() - small.min() <= 1


def test_batches_have_little_padding() -> None:
    rng = np.random.default_rng(0)
    lengths = rng.integers(2, 60, 2000).tolist()
    plan = plan_epoch(directed([lengths]), BatchSettings(max_tokens=1000), 1, 0)
    padded = sum(max(lengths[p] for p in plan[i][1]) * len(plan[i][1]) for i in range(len(plan)))
    assert sum(lengths) / padded > 0.95


def test_a_budget_smaller_than_a_sentence_is_refused() -> None:
    with pytest.raises(
        SettingsError, match=r"batches.max_tokens: 20 is smaller than the longest sentence \(30 tokens\)"
    ):
        check_budget(directed([[3, 30]]), BatchSettings(max_tokens=20))
