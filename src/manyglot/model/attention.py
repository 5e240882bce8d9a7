"""Multi-head attention, which calls the guidance hook `qkv_term`. Executors call `output_term` in `project_output`.

The functions at the end define attention as in the paper. Executors choose what the positions attend to, and some
compute the same result differently. `guidance/laa.py` has the terms of language-aware attention (Eqs. 3-7).

Shape letters: B rows, T query positions, S key positions, D model width, H heads, K width of a head.
"""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from manyglot.model.executor import AttentionParameters, Executor
from manyglot.model.guidance.base import HookPoint
from manyglot.model.sublayer_io import SublayerInput, SublayerOutput


class MultiHeadAttention(nn.Module):
    """The four projections of multi-head attention. Heads are blocks of adjacent columns."""

    def __init__(self, point: HookPoint, width: int, num_heads: int) -> None:
        super().__init__()
        self.point, self.num_heads = point, num_heads
        self.query, self.key, self.value, self.output = (nn.Linear(width, width) for _ in range(4))
        for projection in (self.query, self.key, self.value):
            nn.init.xavier_uniform_(projection.weight, gain=2**-0.5)  # as for one concatenated matrix
        nn.init.xavier_uniform_(self.output.weight)
        for projection in (self.query, self.key, self.value, self.output):
            nn.init.zeros_(projection.bias)


class SelfAttention(MultiHeadAttention):
    """Each position attends to its own sentence; in the decoder, only to positions up to itself."""

    def forward(self, x: SublayerInput, executor: Executor) -> SublayerOutput:
        """Compute softmax(q k^T / sqrt(K)) v W^O; guidance adds one term to q, k and v and another to the output."""
        term_BTD = executor.guidance.qkv_term(self.point, x.guidance_input, executor.target_languages)
        return executor.project_output(self, executor.attend_self(self, x.states, term_BTD))


class CrossAttention(MultiHeadAttention):
    """Each target position attends to the encoder's output, from which keys and values are projected."""

    def forward(self, x: SublayerInput, executor: Executor) -> SublayerOutput:
        """Compute softmax(q k^T / sqrt(K)) v W^O; guidance adds one term to q and another to the output."""
        term_BTD = executor.guidance.qkv_term(self.point, x.guidance_input, executor.target_languages)
        return executor.project_output(self, executor.attend_cross(self, x.states, term_BTD))


def project_queries(attention: AttentionParameters, x_BTD: Tensor, term_BTD: Tensor | None) -> Tensor:
    """Project the queries of all heads and add the term of guidance: x W^Q + x W of Eqs. 3 and 6."""
    return split_heads(add_term(attention.query(x_BTD), term_BTD), attention.num_heads)


def project_keys_and_values(
    attention: AttentionParameters, x_BSD: Tensor, term_BSD: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Project the keys and values of all heads and add the term of guidance to both."""
    k_BSD, v_BSD = (add_term(projection(x_BSD), term_BSD) for projection in (attention.key, attention.value))
    return split_heads(k_BSD, attention.num_heads), split_heads(v_BSD, attention.num_heads)


def attend(
    q_BHTK: Tensor, k_BHSK: Tensor, v_BHSK: Tensor, *, mask: Tensor | None = None, is_causal: bool = False
) -> Tensor:
    """Compute softmax(q k^T / sqrt(K)) v in every head and concatenate the heads; True in the mask allows attention."""
    return join_heads(F.scaled_dot_product_attention(q_BHTK, k_BHSK, v_BHSK, attn_mask=mask, is_causal=is_causal))


def split_heads(x_BTD: Tensor, num_heads: int) -> Tensor:
    """Move the heads into a separate dimension."""
    batch, length, width = x_BTD.shape
    return x_BTD.view(batch, length, num_heads, width // num_heads).transpose(1, 2)


def join_heads(z_BHTK: Tensor) -> Tensor:
    """Concatenate the outputs of the heads."""
    return z_BHTK.transpose(1, 2).flatten(2)


def add_term(x: Tensor, term: Tensor | None) -> Tensor:
    """Add a guidance term, if there is one."""
    return x if term is None else x + term


def drop_positions(x_N1D: Tensor | None) -> Tensor | None:
    """Remove the dimension of a single position; indexing would cost a copy in the backward pass."""
    return None if x_N1D is None else x_N1D.flatten(0, 1)
