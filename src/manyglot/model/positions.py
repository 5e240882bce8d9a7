"""Position embeddings, sinusoidal or learned.

Shape letters: P positions, D model width.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import torch
from torch import Tensor, nn

from manyglot.errors import ManyglotError, SettingsError
from manyglot.model.settings import ModelSettings

MIN_TABLE_LENGTH = 256

PositionTable = Callable[[int], Tensor]
"""Maps a length to a table of position embeddings with at least as many rows, unless the model has fewer positions."""


def first_positions(table: PositionTable, length: int) -> Tensor:
    """Return the embeddings of the first positions; raise an error if the model has fewer."""
    table_PD = table(length)
    if len(table_PD) < length:
        raise ManyglotError(
            f"A sentence has {length:,} tokens, but the model has {len(table_PD):,} positions (model.max_positions). "
            f"Shorten or split it."
        )
    return table_PD[:length]


def check_max_positions(settings: ModelSettings, longest: int) -> None:
    """Raise an error if a text has sentences with more tokens than the model has positions."""
    if settings.max_positions is not None and longest > settings.max_positions:
        raise SettingsError(
            f"model.max_positions: {settings.max_positions} is smaller than the longest sentence ({longest} tokens). "
            f"Raise it, or lower cleaning.max_subwords and prepare again."
        )


def sinusoidal_positions(length: int, width: int, device: torch.device, dtype: torch.dtype, offset: int = 0) -> Tensor:
    """Return a table of position embeddings with at least `length` rows; the first one is number `offset`.

    The length is rounded up to a power of two, so that few tables are computed and cached.
    """
    length += offset
    # A compiled graph cannot use the cache.
    compute = _compute_table.__wrapped__ if torch.compiler.is_compiling() else _compute_table
    table_PD: Tensor = compute(max(MIN_TABLE_LENGTH, 1 << (length - 1).bit_length()), width, device, dtype)
    return table_PD[offset:]


def learned_positions(settings: ModelSettings) -> nn.Embedding | None:
    """Return a new table of learned positions, or None if the positions are sinusoidal."""
    if settings.max_positions is None:
        return None
    table = nn.Embedding(settings.max_positions, settings.width)
    nn.init.normal_(table.weight, std=settings.width**-0.5)
    return table


@lru_cache(maxsize=16)
def _compute_table(length: int, width: int, device: torch.device, dtype: torch.dtype) -> Tensor:
    """Compute sines in the first half of the columns and cosines in the second."""
    with torch.inference_mode(False):  # so that training can reuse the cached table
        half = width // 2
        steps = torch.arange(half, dtype=torch.float64, device=device)
        frequency = torch.exp(steps * -(math.log(10_000) / max(half - 1, 1)))
        angle = torch.arange(length, dtype=torch.float64, device=device)[:, None] * frequency
        return torch.cat([angle.sin(), angle.cos()], dim=1).to(dtype)
