"""Temperature sampling over directions: how often each is seen in an epoch."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

MAX_GROWTH = 1.5
"""An epoch is at most this many times the corpus, as in the paper's experiments."""


def epoch_counts(sizes: npt.NDArray[np.int64], temperature: float | None) -> npt.NDArray[np.int64]:
    """How many sentence pairs of each direction make an epoch, p_i ∝ n_i^(1/T).

    The largest direction would keep its size and the others be raised towards it; where that makes more than
    `MAX_GROWTH` times the corpus, all are scaled down to it. A direction with text is seen at least once. Without a
    temperature every pair is seen once.
    """
    if temperature is None:
        return sizes.copy()
    wanted = (sizes / sizes.max()) ** (1 / temperature) * sizes.max()
    total = min(wanted.sum(), MAX_GROWTH * sizes.sum())
    return _shared_out(total, wanted, sizes)


def weighted_counts(
    sizes: npt.NDArray[np.int64], weights: npt.NDArray[np.float64], total: int | None = None
) -> npt.NDArray[np.int64]:
    """How many sentence pairs of each direction make an epoch, of the size of the corpus or of another, by weights."""
    weights = np.where(sizes > 0, weights, 0)
    return _shared_out(sizes.sum() if total is None else total, weights, sizes)


def _shared_out(total: float, weights: npt.NDArray[np.float64], sizes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """A number in proportion to weights, at least 1 for a direction with text."""
    counts = np.rint(weights / weights.sum() * total).astype(np.int64)
    return np.where(sizes > 0, np.maximum(counts, 1), 0)
