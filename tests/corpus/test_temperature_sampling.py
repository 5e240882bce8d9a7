from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from manyglot.corpus.temperature_sampling import temperature_pair_counts

SIZES = st.lists(st.integers(1, 100_000), min_size=1, max_size=60).map(np.array)


@given(SIZES)
def test_without_a_temperature_an_epoch_has_every_pair_once(sizes: np.ndarray) -> None:
    assert temperature_pair_counts(sizes, None).tolist() == sizes.tolist()


@given(SIZES, st.floats(1, 100))
def test_an_epoch_is_bounded_and_includes_every_direction(sizes: np.ndarray, temperature: float) -> None:
    counts = temperature_pair_counts(sizes, temperature)
    assert (counts >= 1).all()
    assert counts.sum() <= 1.5 * sizes.sum() + len(sizes)


@given(st.floats(1, 20))
def test_counts_are_proportional_to_the_root_of_the_sizes(temperature: float) -> None:
    sizes = np.array([1_000_000, 100_000, 10_000])
    counts = temperature_pair_counts(sizes, temperature)
    np.testing.assert_allclose(
        counts / counts.sum(), sizes ** (1 / temperature) / (sizes ** (1 / temperature)).sum(), rtol=1e-3
    )


def test_a_temperature_of_one_keeps_the_proportions() -> None:
    sizes = np.array([400, 100, 7])
    assert temperature_pair_counts(sizes, 1.0).tolist() == sizes.tolist()


def test_the_epoch_of_the_paper() -> None:
    """min(sum_i (r_i / r_max) n_max, 1.5 N): here 1.5 times 1,020, distributed as 1000^(1/5) to 10^(1/5)."""
    assert temperature_pair_counts(np.array([1000, 10, 10]), 5.0).tolist() == [852, 339, 339]
    assert temperature_pair_counts(np.array([6000, 60]), 0.01).tolist() == [6000, 1]
