"""Execution on padded batches: the definition of every result, to which the other executors are held.

Shape letters: B sentences, T query positions, S key positions, D model width, H heads, K width of a head.
"""

from __future__ import annotations

from collections.abc import Callable

import torch.nn.functional as F
from torch import Tensor

from manyglot.model.executor import AttentionWeights, EncoderMemory, Executor
from manyglot.model.guidance.base import Guidance, TargetLanguages
from manyglot.vocabulary.subword_model import PAD


class PaddedLayout:
    """Sentences below one another, padded to the same length."""

    def __init__(self, source_BS: Tensor, *, sorted_by_language: bool = False) -> None:
        self.sorted_by_language = sorted_by_language
        self.source_mask: Tensor | None = (source_BS != PAD)[:, None, None, :]

    def encoder(self, guidance: Guidance, target_languages: TargetLanguages) -> PaddedEncoder:
        """Every source position sees the whole source."""
        return PaddedEncoder(guidance, target_languages, self.source_mask)

    def select_sources(self, encoded_BSD: Tensor) -> Tensor:
        """All of the encoder's output."""
        return encoded_BSD

    def decoder(self, guidance: Guidance, target_languages: TargetLanguages, memory: EncoderMemory) -> PaddedDecoder:
        """Every target position sees the positions up to its own, and the whole source."""
        return PaddedDecoder(guidance, target_languages, memory)


class _PaddedExecutor(Executor):
    def position_embeddings(self, ids_BT: Tensor, table: Callable[[int], Tensor]) -> Tensor:
        """Positions from 0."""
        length = ids_BT.shape[1]
        return table(length)[:length]


class PaddedEncoder(_PaddedExecutor):
    """The encoder on padded source sentences."""

    def __init__(self, guidance: Guidance, target_languages: TargetLanguages, mask_B11S: Tensor | None) -> None:
        super().__init__(guidance, target_languages)
        self.mask_B11S = mask_B11S

    def attend_self(self, attention: AttentionWeights, x_BTD: Tensor, term_BTD: Tensor | None) -> Tensor:
        """Attend to all real tokens of the sentence."""
        q_BHTK = split_heads(add_term(attention.query(x_BTD), term_BTD), attention.num_heads)
        k_BHSK, v_BHSK = keys_and_values(attention, x_BTD, term_BTD)
        z_BHTK = F.scaled_dot_product_attention(q_BHTK, k_BHSK, v_BHSK, attn_mask=self.mask_B11S)
        return join_heads(z_BHTK)

    def attend_cross(self, attention: AttentionWeights, x_BTD: Tensor, term_BTD: Tensor | None) -> Tensor:
        """An encoder has no cross-attention."""
        raise AssertionError("an encoder has no cross-attention")


class PaddedDecoder(_PaddedExecutor):
    """The decoder on padded target sentences, all positions at once."""

    def __init__(self, guidance: Guidance, target_languages: TargetLanguages, memory: EncoderMemory) -> None:
        super().__init__(guidance, target_languages)
        self.memory = memory

    def attend_self(self, attention: AttentionWeights, x_BTD: Tensor, term_BTD: Tensor | None) -> Tensor:
        """Attend to the positions up to the own one."""
        q_BHTK = split_heads(add_term(attention.query(x_BTD), term_BTD), attention.num_heads)
        k_BHSK, v_BHSK = keys_and_values(attention, x_BTD, term_BTD)
        return join_heads(F.scaled_dot_product_attention(q_BHTK, k_BHSK, v_BHSK, is_causal=True))

    def attend_cross(self, attention: AttentionWeights, x_BTD: Tensor, term_BTD: Tensor | None) -> Tensor:
        """Attend to the real tokens of the source."""
        q_BHTK = split_heads(add_term(attention.query(x_BTD), term_BTD), attention.num_heads)
        k_BHSK, v_BHSK = keys_and_values(attention, self.memory.states_BSD, self.memory.term_BSD)
        z_BHTK = F.scaled_dot_product_attention(q_BHTK, k_BHSK, v_BHSK, attn_mask=self.memory.mask_B11S)
        return join_heads(z_BHTK)


def keys_and_values(attention: AttentionWeights, x_BSD: Tensor, term_BSD: Tensor | None) -> tuple[Tensor, Tensor]:
    """The keys and values of all heads; the term is added to both."""
    projected = (add_term(projection(x_BSD), term_BSD) for projection in (attention.key, attention.value))
    k_BHSK, v_BHSK = (split_heads(x, attention.num_heads) for x in projected)
    return k_BHSK, v_BHSK


def split_heads(x_BTD: Tensor, num_heads: int) -> Tensor:
    """Heads as a dimension of their own."""
    batch, length, width = x_BTD.shape
    return x_BTD.view(batch, length, num_heads, width // num_heads).transpose(1, 2)


def join_heads(z_BHTK: Tensor) -> Tensor:
    """The outputs of the heads side by side."""
    return z_BHTK.transpose(1, 2).flatten(2)


def add_term(x: Tensor, term: Tensor | None) -> Tensor:
    """x plus a term of guidance, if there is one."""
    return x if term is None else x + term
