"""Multi-head attention with the hooks of guidance inside: `project`, `project_memory` and `merge`.

Shape letters: B sentences, T query positions, S key positions, D model width, H heads, K width of a head.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor, nn

from manyglot.model.cache import KeyValues
from manyglot.model.guidance.base import Guidance, Point, Target


@dataclass(frozen=True)
class Memory:
    """What the encoder made of the source sentences, as every cross-attention reads it."""

    memory_BSD: Tensor
    mask_B11S: Tensor
    """True where there is a token."""
    term_BSD: Tensor | None
    """What guidance adds to the keys and values of every layer."""

    def select(self, rows_B: Tensor) -> Memory:
        """The memory of some sentences, in the given order and number."""
        term_BSD = None if self.term_BSD is None else self.term_BSD[rows_B]
        return Memory(self.memory_BSD[rows_B], self.mask_B11S[rows_B], term_BSD)


class Attention(nn.Module):
    """softmax(q k^T / sqrt(K)) v in H heads, each head a block of neighbouring columns."""

    def __init__(self, point: Point, width: int, num_heads: int) -> None:
        super().__init__()
        self.point, self.num_heads = point, num_heads
        self.query, self.key, self.value, self.output = (nn.Linear(width, width) for _ in range(4))
        for projection in (self.query, self.key, self.value):
            nn.init.xavier_uniform_(projection.weight, gain=2**-0.5)  # as one matrix of three times the width
        nn.init.xavier_uniform_(self.output.weight)
        for projection in (self.query, self.key, self.value, self.output):
            nn.init.zeros_(projection.bias)

    def forward(
        self,
        x_BTD: Tensor,
        guidance: Guidance,
        target: Target,
        *,
        mask: Tensor | None = None,
        causal: bool = False,
        memory: Memory | None = None,
        cache: KeyValues | None = None,
    ) -> Tensor:
        """Attend from x to the memory, or to x itself when there is none.

        In self-attention the mask is true where attention is allowed, and `causal` allows a position to see those
        before it and itself; the memory has its own mask. With a cache, self-attention adds its new positions and
        cross-attention reads the memory once.
        """
        term_BTD = guidance.project(self.point, x_BTD, target)
        q_BHTK = self._heads(_add(self.query(x_BTD), term_BTD))
        if memory is None:
            k_BHSK, v_BHSK = self._keys_and_values(x_BTD, term_BTD)
            if cache is not None:
                k_BHSK, v_BHSK = cache.append(k_BHSK, v_BHSK)
        elif cache is not None and cache.key_BHSK is not None and cache.value_BHSK is not None:
            k_BHSK, v_BHSK = cache.key_BHSK, cache.value_BHSK
        else:
            k_BHSK, v_BHSK = self._keys_and_values(memory.memory_BSD, memory.term_BSD)
            if cache is not None:
                cache.append(k_BHSK, v_BHSK)
        mask = mask if memory is None else memory.mask_B11S
        causal = causal and q_BHTK.shape[2] > 1  # a single new position sees all the cached ones
        assert not causal or q_BHTK.shape[2] == k_BHSK.shape[2], "several positions at once need an empty cache"
        z_BHTK = F.scaled_dot_product_attention(q_BHTK, k_BHSK, v_BHSK, attn_mask=mask, is_causal=causal)
        z_BTD = z_BHTK.transpose(1, 2).flatten(2)
        return _add(self.output(z_BTD), guidance.merge(self.point, z_BTD, target))

    def _keys_and_values(self, x_BSD: Tensor, term_BSD: Tensor | None) -> tuple[Tensor, Tensor]:
        return self._heads(_add(self.key(x_BSD), term_BSD)), self._heads(_add(self.value(x_BSD), term_BSD))

    def _heads(self, x_BTD: Tensor) -> Tensor:
        batch, length, width = x_BTD.shape
        return x_BTD.view(batch, length, self.num_heads, width // self.num_heads).transpose(1, 2)


def _add(x: Tensor, term: Tensor | None) -> Tensor:
    return x if term is None else x + term
