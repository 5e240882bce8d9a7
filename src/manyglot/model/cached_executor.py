"""Step-by-step decoding with a key-value cache, first per sentence, then per beam.

Shape letters: B sentences, N rows (sentences, later beams), T query positions, S key positions,
D model width, H heads, K width of a head.
"""

from __future__ import annotations

import torch
from torch import Tensor

from manyglot.model import kernels
from manyglot.model.attention import attend, join_heads, project_keys_and_values, project_queries
from manyglot.model.executor import AttentionParameters, EncoderMemory, Executor
from manyglot.model.guidance.base import TargetLanguages
from manyglot.model.padded_executor import PaddedLayout
from manyglot.model.positions import PositionTable, first_positions
from manyglot.model.transformer import Transformer

CAPACITY_STEP = 16
"""The cache grows by this many positions at a time; growing by one would copy the whole cache in every step."""

MAX_ROWS_IN_FLOAT32 = 64
"""Up to this number of rows, a CPU attends faster in float32 than in half precision."""


def encode_sources(
    model: Transformer, source_BS: Tensor, target_languages: TargetLanguages, sentence_B: Tensor | None = None
) -> EncoderMemory:
    """Encode padded source sentences.

    If the encoder does not depend on the target language, a source can be encoded once for several target languages;
    `sentence_B` is then the source sentence of each target.
    """
    layout = PaddedLayout(source_BS)
    encoded_BSD, mask_B11S = (
        model.encode(source_BS, layout.encoder_executor(model.guidance, target_languages)),
        layout.source_mask,
    )
    if sentence_B is not None:
        assert not model.guidance.affects_encoder, "the encoder depends on the target language"
        assert mask_B11S is not None
        encoded_BSD, mask_B11S = encoded_BSD.index_select(0, sentence_B), mask_B11S.index_select(0, sentence_B)
    return model.apply_memory_guidance(encoded_BSD, target_languages, mask_B11S)


class KVCache:
    """The keys and values of one attention."""

    def __init__(self) -> None:
        self.length = 0
        self._key_and_value: tuple[Tensor, Tensor] | None = None

    def append(self, key_NHSK: Tensor, value_NHSK: Tensor) -> tuple[Tensor, Tensor]:
        """Append new positions and return the keys and values of all positions."""
        start, self.length = self.length, self.length + key_NHSK.shape[2]
        if self._key_and_value is None:
            self._key_and_value = key_NHSK, value_NHSK
        elif self.length > self._key_and_value[0].shape[2]:
            self._key_and_value = (
                _with_spare_capacity(self._key_and_value[0][:, :, :start]),
                _with_spare_capacity(self._key_and_value[1][:, :, :start]),
            )
        if start:
            for cache_NHSK, new_NHSK in zip(self._key_and_value, (key_NHSK, value_NHSK), strict=True):
                cache_NHSK[:, :, start : self.length] = new_NHSK
        return self.get()

    def get(self) -> tuple[Tensor, Tensor]:
        """Return the keys and values of all positions."""
        assert self._key_and_value is not None, "the cache is empty"
        key_NHSK, value_NHSK = (x_NHSK[:, :, : self.length] for x_NHSK in self._key_and_value)
        return key_NHSK, value_NHSK

    def reorder(self, rows_N: Tensor) -> None:
        """Keep the given rows, in this order; a row may be repeated."""
        if self._key_and_value is not None:
            self._key_and_value = (
                self._key_and_value[0].index_select(0, rows_N),
                self._key_and_value[1].index_select(0, rows_N),
            )


def _with_spare_capacity(x_NHSK: Tensor) -> Tensor:
    batch, heads, length, width = x_NHSK.shape
    larger = x_NHSK.new_empty(batch, heads, (length // CAPACITY_STEP + 1) * CAPACITY_STEP, width)
    larger[:, :, :length] = x_NHSK
    return larger


class CachedDecoderExecutor(Executor):
    """A decoder whose input continues the cached positions.

    At first the input holds the next tokens of each sentence. After `expand_to_beams` it holds the next token of each
    beam.
    """

    def __init__(self, model: Transformer, target_languages: TargetLanguages, memory: EncoderMemory) -> None:
        super().__init__(model.guidance, target_languages)
        self.memory = memory
        self.self_attention = [KVCache() for _ in model.decoder]
        self.cross_attention = [KVCache() for _ in model.decoder]
        self.has_beams = False

    def expand_to_beams(self, rows_N: Tensor) -> None:
        """Give each beam its own cache; `rows_N` is the sentence of each beam."""
        self.has_beams = True
        self.select_beams(rows_N)

    def select_beams(self, rows_N: Tensor, sentences_B: Tensor | None = None) -> None:
        """Keep the given beams and, if some sentences are finished, only the given sentences.

        The beams of a sentence share its memory.
        """
        for cache in self.self_attention:
            cache.reorder(rows_N)
        if sentences_B is not None:
            for cache in self.cross_attention:
                cache.reorder(sentences_B)
            self.target_languages, self.memory = (
                self.target_languages.select(sentences_B),
                self.memory.select(sentences_B),
            )

    def position_embeddings(self, ids_BT: Tensor, table: PositionTable) -> Tensor:
        """Continue after the cached positions; all beams are at the same position."""
        start = self.self_attention[0].length
        end = start + (1 if self.has_beams else ids_BT.shape[1])
        return first_positions(table, end)[start:end]

    def attend_self(self, attention: AttentionParameters, x_BTD: Tensor, term_BTD: Tensor | None) -> Tensor:
        """Cache the keys and values of the input and attend to all positions."""
        if self.has_beams:  # each beam is a row with one new position
            term_N1D = None if term_BTD is None else _as_rows(term_BTD)
            return self._attend_self(attention, _as_rows(x_BTD), term_N1D).view_as(x_BTD)
        return self._attend_self(attention, x_BTD, term_BTD)

    def _attend_self(self, attention: AttentionParameters, x_NTD: Tensor, term_NTD: Tensor | None) -> Tensor:
        q_NHTK = project_queries(attention, x_NTD, term_NTD)
        cache = self.self_attention[attention.point.layer]
        k_NHSK, v_NHSK = cache.append(*project_keys_and_values(attention, x_NTD, term_NTD))
        if q_NHTK.shape[2] == 1:  # a single new position attends to all cached ones
            return _attend_few(q_NHTK, k_NHSK, v_NHSK, None)
        assert q_NHTK.shape[2] == k_NHSK.shape[2], "several positions at once need an empty cache"
        return attend(q_NHTK, k_NHSK, v_NHSK, is_causal=True)

    def attend_cross(self, attention: AttentionParameters, x_BTD: Tensor, term_BTD: Tensor | None) -> Tensor:
        """Attend to the source; its keys and values are computed in the first step and cached."""
        q_BHTK = project_queries(attention, x_BTD, term_BTD)
        cache = self.cross_attention[attention.point.layer]
        if not cache.length:
            cache.append(*project_keys_and_values(attention, self.memory.states_BSD, self.memory.kv_term_BSD))
        return _attend_few(q_BHTK, *cache.get(), self.memory.mask_B11S)


def _as_rows(x_BTD: Tensor) -> Tensor:
    """Turn every token into a row of its own."""
    return x_BTD.reshape(-1, 1, x_BTD.shape[-1])


def _attend_few(q_NHTK: Tensor, k_NHSK: Tensor, v_NHSK: Tensor, mask: Tensor | None) -> Tensor:
    """`attend` for few queries: on a CPU, plain products are then faster than PyTorch's kernel."""
    if not q_NHTK.is_cpu:
        return attend(q_NHTK, k_NHSK, v_NHSK, mask=mask)
    dtype = q_NHTK.dtype
    if dtype in kernels.HALF_PRECISION_DTYPES and len(q_NHTK) <= MAX_ROWS_IN_FLOAT32:
        q_NHTK, k_NHSK, v_NHSK = q_NHTK.float(), k_NHSK.float(), v_NHSK.float()
    score_NHTS = (q_NHTK * q_NHTK.shape[-1] ** -0.5) @ k_NHSK.mT
    if mask is not None:
        score_NHTS = score_NHTS.masked_fill(~mask, -torch.inf)
    return join_heads(score_NHTS.softmax(dim=-1) @ v_NHSK).to(dtype)
