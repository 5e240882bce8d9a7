"""Multi-head attention with the hooks of guidance inside: `project`, `project_memory` and `merge`.

Sentences come padded, B of them with T positions each, or packed, and then every token is a row of one position.

Shape letters: B sentences, T query positions, S key positions, D model width, H heads, K width of a head, N packed
tokens, C widths side by side.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from manyglot.model.cache import KeyValues
from manyglot.model.guidance.base import Guidance, Point, Target
from manyglot.model.operations import (
    Branch,
    Fork,
    KeysAndValues,
    Sight,
    attend_cross,
    attend_self,
    project,
    project_by_language,
)
from manyglot.model.slots import OfSources, Past


@dataclass(frozen=True)
class Memory:
    """What the encoder made of the source sentences, as every cross-attention reads it."""

    memory_BSD: Tensor
    mask_B11S: Tensor | None
    """True where there is a token; packed sentences need none."""
    term_BSD: Tensor | None
    """What guidance adds to the keys and values of every layer."""
    keys_and_values: list[KeysAndValues] | None = None
    """Those of packed sentences by layer, where they are made for all at once."""

    def select(self, rows_B: Tensor) -> Memory:
        """The memory of some sentences, in the given order and number."""
        mask_B11S, term_BSD = (
            None if x is None else x.index_select(0, rows_B) for x in (self.mask_B11S, self.term_BSD)
        )
        return Memory(self.memory_BSD.index_select(0, rows_B), mask_B11S, term_BSD)


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
        states: Fork,
        guidance: Guidance,
        target: Target,
        *,
        mask: Tensor | None = None,
        causal: bool = False,
        memory: Memory | None = None,
        cache: KeyValues | Past | OfSources | None = None,
        sight: Sight | None = None,
    ) -> Branch:
        """Attend from the states to the memory, or to themselves when there is none.

        In self-attention the mask is true where attention is allowed, and `causal` allows a position to see those
        before it and itself; the memory has its own mask. With a cache, self-attention adds its new positions and
        cross-attention reads the memory once. Packed sentences have a sight instead of all that, and beams in slots
        have all of it in what they remember.
        """
        x_BTD, term_BTD = states.through, guidance.project(self.point, states.guided, target)
        if isinstance(cache, Past | OfSources):
            z_BTD = self._attend_in_slots(x_BTD, term_BTD, cache)
        elif cache is not None and cache.per_token:
            term_N1D = None if term_BTD is None else _rows(term_BTD)
            z_BTD = self._attend(_rows(x_BTD), term_N1D, mask, causal, memory, cache).view_as(x_BTD)
        elif sight is None:
            z_BTD = self._attend(x_BTD, term_BTD, mask, causal, memory, cache)
        else:
            z_BTD = self._attend_packed(x_BTD, term_BTD, memory, sight)
        added = guidance.merge_matrices(self.point, z_BTD, target) if sight is not None else None
        merged = project_by_language(z_BTD, self.output, added) if added is not None else None
        return merged or project(z_BTD, self.output, guidance.merge(self.point, z_BTD, target))

    def _attend_packed(self, x_N1D: Tensor, term_N1D: Tensor | None, memory: Memory | None, sight: Sight) -> Tensor:
        """Query, key and value of a token are made in one product."""
        x_ND, term_ND = x_N1D.flatten(0, 1), _flat(term_N1D)
        projections = self.query, self.key, self.value
        if memory is None:
            return attend_self(x_ND, projections, term_ND, sight, self.num_heads)[:, None]
        memory_ND, terms = memory.memory_BSD.flatten(0, 1), (term_ND, _flat(memory.term_BSD))
        made = None if memory.keys_and_values is None else memory.keys_and_values[self.point.layer]
        return attend_cross(x_ND, memory_ND, made, projections, terms, sight, self.num_heads)[:, None]

    def _attend_in_slots(self, x_N1D: Tensor, term_N1D: Tensor | None, cache: Past | OfSources) -> Tensor:
        x_ND, term_ND = x_N1D.flatten(0, 1), _flat(term_N1D)
        if isinstance(cache, OfSources):
            return cache.attend(self.query(x_ND), term_ND, self.num_heads)[:, None]
        qkv_NC = F.linear(x_ND, *cache.projection)
        return cache.attend(qkv_NC, term_ND, self.num_heads)[:, None]

    def joined(self) -> tuple[Tensor, Tensor]:
        """The projections to query, key and value as one."""
        projections = self.query, self.key, self.value
        return torch.cat([p.weight for p in projections]), torch.cat([p.bias for p in projections])

    def _attend(
        self,
        x_BTD: Tensor,
        term_BTD: Tensor | None,
        mask: Tensor | None,
        causal: bool,
        memory: Memory | None,
        cache: KeyValues | None,
    ) -> Tensor:
        q_BHTK = self._heads(_add(self.query(x_BTD), term_BTD))
        if memory is None:
            k_BHSK, v_BHSK = self._keys_and_values(x_BTD, term_BTD)
            if cache is not None:
                k_BHSK, v_BHSK = cache.append(k_BHSK, v_BHSK)
        elif cache is not None and cache.length:
            k_BHSK, v_BHSK = cache.get()
        else:
            k_BHSK, v_BHSK = self._keys_and_values(memory.memory_BSD, memory.term_BSD)
            if cache is not None:
                cache.append(k_BHSK, v_BHSK)
        mask = mask if memory is None else memory.mask_B11S
        causal = causal and q_BHTK.shape[2] > 1  # a single new position sees all the cached ones
        assert not causal or q_BHTK.shape[2] == k_BHSK.shape[2], "several positions at once need an empty cache"
        if q_BHTK.is_cpu and cache is not None and not causal:
            z_BHTK = _attend_few(q_BHTK, k_BHSK, v_BHSK, mask)
        else:
            z_BHTK = F.scaled_dot_product_attention(q_BHTK, k_BHSK, v_BHSK, attn_mask=mask, is_causal=causal)
        return z_BHTK.transpose(1, 2).flatten(2)

    def keys_and_values(self, x_BSD: Tensor, term_BSD: Tensor | None) -> tuple[Tensor, Tensor]:
        """Of all heads side by side."""
        return _add(self.key(x_BSD), term_BSD), _add(self.value(x_BSD), term_BSD)

    def _keys_and_values(self, x_BSD: Tensor, term_BSD: Tensor | None) -> tuple[Tensor, Tensor]:
        key_BSD, value_BSD = self.keys_and_values(x_BSD, term_BSD)
        return self._heads(key_BSD), self._heads(value_BSD)

    def _heads(self, x_BTD: Tensor) -> Tensor:
        batch, length, width = x_BTD.shape
        return x_BTD.view(batch, length, self.num_heads, width // self.num_heads).transpose(1, 2)


def _attend_few(q_BHTK: Tensor, k_BHSK: Tensor, v_BHSK: Tensor, mask: Tensor | None) -> Tensor:
    """softmax(q k^T / sqrt(K)) v as it is written: on a CPU faster than the library where there are few queries."""
    score_BHTS = (q_BHTK * q_BHTK.shape[-1] ** -0.5) @ k_BHSK.mT
    if mask is not None:
        score_BHTS = score_BHTS.masked_fill(~mask, -torch.inf)
    z_BHTK: Tensor = score_BHTS.softmax(dim=-1) @ v_BHSK
    return z_BHTK


def _rows(x_BTD: Tensor) -> Tensor:
    """Every token a row of its own."""
    return x_BTD.reshape(-1, 1, x_BTD.shape[-1])


def _flat(x_N1D: Tensor | None) -> Tensor | None:
    """Rows of one token; as an index this would cost a copy in the backward pass."""
    return None if x_N1D is None else x_N1D.flatten(0, 1)


def _add(x: Tensor, term: Tensor | None) -> Tensor:
    return x if term is None else x + term
