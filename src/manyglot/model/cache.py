"""What the decoder remembers between steps: the keys and values of every attention.

Shape letters: B sentences, H heads, S positions, K width of a head.
"""

from __future__ import annotations

import torch
from torch import Tensor


class KeyValues:
    """The keys and values of one attention."""

    def __init__(self) -> None:
        self.key_BHSK: Tensor | None = None
        self.value_BHSK: Tensor | None = None

    def append(self, key_BHSK: Tensor, value_BHSK: Tensor) -> tuple[Tensor, Tensor]:
        """Add new positions and return all of them."""
        if self.key_BHSK is not None and self.value_BHSK is not None:
            key_BHSK = torch.cat([self.key_BHSK, key_BHSK], dim=2)
            value_BHSK = torch.cat([self.value_BHSK, value_BHSK], dim=2)
        self.key_BHSK, self.value_BHSK = key_BHSK, value_BHSK
        return key_BHSK, value_BHSK

    def select(self, rows_B: Tensor) -> None:
        """Keep some sentences, in the given order and number."""
        if self.key_BHSK is not None and self.value_BHSK is not None:
            self.key_BHSK, self.value_BHSK = self.key_BHSK[rows_B], self.value_BHSK[rows_B]


class LayerCache:
    """The two attentions of a decoder layer."""

    def __init__(self) -> None:
        self.self_attention = KeyValues()
        self.cross_attention = KeyValues()


class DecoderCache:
    """All layers, and how many positions are done."""

    def __init__(self, num_layers: int) -> None:
        self.layers = [LayerCache() for _ in range(num_layers)]
        self.length = 0

    def select(self, rows_B: Tensor, cross_attention: bool = True) -> None:
        """Keep some rows; the memory's part may stay when rows move within their sentence only."""
        for layer in self.layers:
            layer.self_attention.select(rows_B)
            if cross_attention:
                layer.cross_attention.select(rows_B)
