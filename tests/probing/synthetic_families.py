"""Synthetic language families with known features: languages differ little from their ancestor."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def make_families(num_families: int, size: int, num_features: int, change: float, seed: int = 1) -> NDArray[np.int8]:
    """Return the features of the languages, family by family; each feature changes with probability `change`."""
    rng = np.random.default_rng(seed)
    ancestors = rng.integers(0, 2, (num_families, 1, num_features))
    changed = rng.random((num_families, size, num_features)) < change
    return (ancestors ^ changed).reshape(-1, num_features).astype(np.int8)


def vectors(value_LF: NDArray[np.int8], width: int, seed: int = 2) -> NDArray[np.float64]:
    """Embed features linearly in a vector space, as a model could learn them."""
    return (2.0 * value_LF - 1) @ np.random.default_rng(seed).standard_normal((value_LF.shape[1], width))


def matrices(value_LF: NDArray[np.int8], width: int, seed: int = 3) -> NDArray[np.float64]:
    """Embed features as matrices: each row is another embedding with another length."""
    rows = [vectors(value_LF, width, seed + row) * (row + 1) for row in range(width)]
    return np.stack(rows, axis=1)
