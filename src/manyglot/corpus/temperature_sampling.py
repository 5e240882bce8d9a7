"""Temperature sampling: the number of sentence pairs that each direction contributes to an epoch."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

MAX_EPOCH_GROWTH = 1.5
"""Maximum size of an epoch relative to the number of pairs in the corpus, as in the paper's experiments."""


def temperature_pair_counts(sizes: npt.NDArray[np.int64], temperature: float | None) -> npt.NDArray[np.int64]:
    """Sentence pairs per epoch of each direction by temperature sampling, p_i ∝ n_i^(1/T).

    The largest direction keeps its size and the others are oversampled. If that exceeds `MAX_EPOCH_GROWTH` times the
    corpus, all counts are scaled down to this limit. Every direction with text contributes at least one pair. Without a
    temperature, an epoch contains every pair once.
    """
    if temperature is None:
        return sizes.copy()
    unscaled = (sizes / sizes.max()) ** (1 / temperature) * sizes.max()
    total = min(unscaled.sum(), MAX_EPOCH_GROWTH * sizes.sum())
    return _allocate_proportionally(total, unscaled, sizes)


def weighted_pair_counts(
    sizes: npt.NDArray[np.int64], weights: npt.NDArray[np.float64], total: int | None = None
) -> npt.NDArray[np.int64]:
    """Sentence pairs per epoch of each direction in proportion to weights.

    `total` is the size of the epoch and defaults to the size of the corpus.
    """
    weights = np.where(sizes > 0, weights, 0)
    return _allocate_proportionally(sizes.sum() if total is None else total, weights, sizes)


def _allocate_proportionally(
    total: float, weights: npt.NDArray[np.float64], sizes: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Distribute a total in proportion to weights; a direction with text gets at least 1."""
    counts = np.rint(weights / weights.sum() * total).astype(np.int64)
    return np.where(sizes > 0, np.maximum(counts, 1), 0)
