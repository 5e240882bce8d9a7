from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manyglot.training.schedule import ScheduleName, learning_rate_at_step

NAMES = get_args(ScheduleName)


@given(st.sampled_from(NAMES), st.integers(1, 5000), st.integers(0, 4000))
def test_the_learning_rate_rises_to_its_peak_and_falls(name: ScheduleName, step: int, warmup: int) -> None:
    now, then = (learning_rate_at_step(name, s, 5e-4, warmup, max_steps=5001) for s in (step, step + 1))
    assert 0 < now <= 5e-4
    if step < warmup:
        assert now < then
    else:
        assert now == then if name == "constant" else now > then


@pytest.mark.parametrize("name", NAMES)
def test_the_peak_is_at_the_end_of_the_warm_up(name: ScheduleName) -> None:
    assert learning_rate_at_step(name, 4000, 5e-4, 4000, 10_000) == 5e-4


def test_the_paper_s_learning_rate() -> None:
    rates = [learning_rate_at_step("inverse_square_root", step, 5e-4, 4000, 100_000) for step in (2000, 4000, 16000)]
    assert rates == pytest.approx([2.5e-4, 5e-4, 2.5e-4], rel=1e-3)


def test_linear_and_cosine_decay_are_at_half_in_the_middle() -> None:
    for name in ("linear", "cosine"):
        assert learning_rate_at_step(name, 550, 1.0, 100, 999) == pytest.approx(0.5)
