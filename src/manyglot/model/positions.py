"""Sinusoidal position embeddings.

Shape letters: P positions, D model width.
"""

from __future__ import annotations

import math
from functools import lru_cache

import torch
from torch import Tensor

MIN_TABLE_LENGTH = 256


def sinusoidal_positions(length: int, width: int, device: torch.device, dtype: torch.dtype) -> Tensor:
    """Return a table of position embeddings with at least `length` rows.

    The length is rounded up to a power of two, so that few tables are computed and cached.
    """
    # A compiled graph cannot use the cache.
    compute = _compute_table.__wrapped__ if torch.compiler.is_compiling() else _compute_table
    table_PD: Tensor = compute(max(MIN_TABLE_LENGTH, 1 << (length - 1).bit_length()), width, device, dtype)
    return table_PD


@lru_cache(maxsize=16)
def _compute_table(length: int, width: int, device: torch.device, dtype: torch.dtype) -> Tensor:
    """Compute sines in the first half of the columns and cosines in the second."""
    with torch.inference_mode(False):  # so that training can reuse the cached table
        half = width // 2
        steps = torch.arange(half, dtype=torch.float64, device=device)
        frequency = torch.exp(steps * -(math.log(10_000) / max(half - 1, 1)))
        angle = torch.arange(length, dtype=torch.float64, device=device)[:, None] * frequency
        return torch.cat([angle.sin(), angle.cos()], dim=1).to(dtype)
