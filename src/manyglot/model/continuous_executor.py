"""The static key-value cache of continuous batching, and the decoder that runs on it.

The cache has a fixed number of slots, each with space for the beams of one sentence. Sentences enter and leave slots,
slots are at different positions, and no key or value ever moves: a beam records which beam of its slot decoded each
earlier position (its ancestors), and a slot records where the source of its sentence starts. So no shape ever changes,
and a CUDA graph can replay a decoding step.

Shape letters: B slots, K beams, N = B·K rows, T positions per slot, D model width, C = 3D, H heads of width W, M tokens
of all sources, S sentences.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from manyglot.model import kernels
from manyglot.model.attention import add_term, drop_positions
from manyglot.model.executor import AttentionParameters, EncoderMemory, Executor
from manyglot.model.guidance.base import Guidance, TargetLanguages
from manyglot.model.layers import DecoderLayer
from manyglot.model.positions import PositionTable
from manyglot.model.transformer import Transformer


@dataclass
class Slots:
    """The sentence in each slot and the progress of its decoding."""

    sentence_B: Tensor
    num_decoded_B: Tensor
    """The number of decoded positions of each slot."""
    ancestor_BKT: Tensor
    """For each beam and position, the beam of the slot that decoded it."""
    slot_order_B: Tensor
    """The order in which a decoding step processes the slots."""

    @classmethod
    def allocate(cls, num_slots: int, beam_size: int, num_positions: int, device: torch.device) -> Slots:
        """Allocate slots at position 0 of sentence 0."""
        zeros_B = torch.zeros(num_slots, dtype=torch.long, device=device)
        ancestor_BKT = torch.zeros(num_slots, beam_size, num_positions, dtype=torch.int16, device=device)
        return cls(zeros_B, zeros_B.clone(), ancestor_BKT, torch.arange(num_slots, device=device))

    @property
    def beam_size(self) -> int:
        """Beams per slot."""
        return self.ancestor_BKT.shape[1]


@dataclass
class SourceSpans:
    """The span of each sentence in the concatenated tokens of all sources."""

    start_S: Tensor
    length_S: Tensor


@dataclass
class StaticSelfKV:
    """The keys and values of one self-attention."""

    slots: Slots
    weight_CD: Tensor
    """The joint projection to query, key and value."""
    bias_C: Tensor
    key_BKTD: Tensor
    value_BKTD: Tensor

    def project_qkv(self, x_ND: Tensor) -> Tensor:
        """Return query, key and value, concatenated."""
        return F.linear(x_ND, self.weight_CD, self.bias_C)

    def append_and_attend(self, qkv_NC: Tensor, term_ND: Tensor | None, num_heads: int) -> Tensor:
        """Write the keys and values of a new position and attend to all positions; rows follow `slot_order_B`.

        The guidance term is added to query, key and value.
        """
        slots, key_and_value = self.slots, (self.key_BKTD, self.value_BKTD)
        if kernels.runs_kernels(qkv_NC.device):
            from manyglot.model.kernels.static_kv_attention import append_and_self_attend

            return append_and_self_attend(
                qkv_NC, term_ND, key_and_value, slots.ancestor_BKT, slots.num_decoded_B, slots.slot_order_B, num_heads
            )
        q_BKD, k_BKD, v_BKD = (
            add_term(x, term_ND).view(len(slots.num_decoded_B), slots.beam_size, -1) for x in qkv_NC.chunk(3, dim=1)
        )
        slot_B, num_decoded_B11 = slots.slot_order_B, slots.num_decoded_B[slots.slot_order_B][:, None, None]
        for cache_BKTD, new_BKD in zip(key_and_value, (k_BKD, v_BKD), strict=True):
            cache_BKTD[slot_B, :, slots.num_decoded_B[slot_B]] = new_BKD
        position_T = torch.arange(slots.ancestor_BKT.shape[2], device=qkv_NC.device)
        beam_K1 = torch.arange(slots.beam_size, device=qkv_NC.device)[:, None]
        beam_BKT = torch.where(position_T == num_decoded_B11, beam_K1, slots.ancestor_BKT[slot_B].long())
        k_BKTD, v_BKTD = (cache_BKTD[slot_B[:, None, None], beam_BKT, position_T] for cache_BKTD in key_and_value)
        return _attend(q_BKD, k_BKTD, v_BKTD, position_T <= num_decoded_B11, num_heads)


@dataclass
class StaticCrossKV:
    """The keys and values of one cross-attention, for the concatenated sources."""

    slots: Slots
    sources: SourceSpans
    key_MD: Tensor
    value_MD: Tensor

    def attend(self, q_ND: Tensor, term_ND: Tensor | None, num_heads: int) -> Tensor:
        """Attend to the source of each slot's sentence; the guidance term is added to the query."""
        slots, sources, key_and_value = self.slots, self.sources, (self.key_MD, self.value_MD)
        if kernels.runs_kernels(q_ND.device):
            from manyglot.model.kernels.static_kv_attention import cross_attend_sources

            spans = slots.sentence_B, sources.start_S, sources.length_S, slots.slot_order_B
            return cross_attend_sources(q_ND, term_ND, key_and_value, *spans, num_heads)
        sentence_B = slots.sentence_B[slots.slot_order_B]
        start_B, length_B = sources.start_S[sentence_B], sources.length_S[sentence_B]
        position_T = torch.arange(int(length_B.max()), device=q_ND.device)
        mask_B1T = position_T < length_B[:, None, None]
        token_B1T = (start_B[:, None, None] + position_T) * mask_B1T
        q_BKD = add_term(q_ND, term_ND).view(len(sentence_B), slots.beam_size, -1)
        return _attend(q_BKD, self.key_MD[token_B1T], self.value_MD[token_B1T], mask_B1T, num_heads)


def _attend(q_BKD: Tensor, k_BKTD: Tensor, v_BKTD: Tensor, mask_BKT: Tensor, num_heads: int) -> Tensor:
    """Return softmax(q k^T / sqrt(W)) v, where each beam, or each slot, has its own keys and values."""
    q_BKHW, k_BKTHW, v_BKTHW = (x.view(*x.shape[:-1], num_heads, -1) for x in (q_BKD, k_BKTD, v_BKTD))
    score_BKTH = (q_BKHW[:, :, None] * k_BKTHW).sum(dim=-1) * q_BKHW.shape[-1] ** -0.5
    weight_BKTH = score_BKTH.masked_fill(~mask_BKT[..., None], -torch.inf).softmax(dim=2)
    z_BKHW: Tensor = (weight_BKTH[..., None] * v_BKTHW).sum(dim=2)
    return z_BKHW.view(-1, q_BKD.shape[-1])


@dataclass
class StaticKVCache:
    """The keys and values of all decoder layers."""

    slots: Slots
    self_attention: list[StaticSelfKV]
    cross_attention: list[StaticCrossKV]

    @classmethod
    def allocate(cls, model: Transformer, slots: Slots, sources: SourceSpans, num_source_tokens: int) -> StaticKVCache:
        """Allocate an empty cache for these slots."""
        weight, width = model.embedding.weight, model.settings.width
        shape_BKT, self_attention, cross_attention = slots.ancestor_BKT.shape, [], []
        for layer in _decoder_layers(model):
            projections = layer.self_attention.query, layer.self_attention.key, layer.self_attention.value
            weight_CD, bias_C = torch.cat([p.weight for p in projections]), torch.cat([p.bias for p in projections])
            key_and_value = [weight.new_zeros(*shape_BKT, width) for _ in range(2)]
            self_attention.append(StaticSelfKV(slots, weight_CD, bias_C, *key_and_value))
            key_and_value = [weight.new_zeros(num_source_tokens, width) for _ in range(2)]
            cross_attention.append(StaticCrossKV(slots, sources, *key_and_value))
        return cls(slots, self_attention, cross_attention)

    def write_sources(self, model: Transformer, memory: EncoderMemory, start: int) -> int:
        """Write the keys and values of encoded sources without padding, from token `start`; return the end token."""
        assert memory.mask_B11S is not None
        token_n = memory.mask_B11S.flatten().nonzero()[:, 0]
        end = start + len(token_n)
        for layer, cache in zip(_decoder_layers(model), self.cross_attention, strict=True):
            attention = layer.cross_attention
            for projection, cache_MD in ((attention.key, cache.key_MD), (attention.value, cache.value_MD)):
                new_BSD = add_term(projection(memory.states_BSD), memory.kv_term_BSD)
                cache_MD[start:end] = new_BSD.flatten(0, 1)[token_n]
        return end

    def num_decoded_per_row(self) -> Tensor:
        """Return the number of decoded positions of each row."""
        return self.slots.num_decoded_B[self.slots.slot_order_B].repeat_interleave(self.slots.beam_size)


def _decoder_layers(model: Transformer) -> list[DecoderLayer]:
    return [layer for layer in model.decoder if isinstance(layer, DecoderLayer)]


class StaticCacheDecoderExecutor(Executor):
    """The decoder of continuous batching: each row is the next token of one beam of one slot."""

    def __init__(self, guidance: Guidance, target_languages: TargetLanguages, cache: StaticKVCache) -> None:
        super().__init__(guidance, target_languages)
        self.cache = cache

    def position_embeddings(self, ids_N1: Tensor, table: PositionTable) -> Tensor:
        """Each row is at the position of its slot."""
        return table(self.cache.slots.ancestor_BKT.shape[2])[self.cache.num_decoded_per_row()][:, None]

    def attend_self(self, attention: AttentionParameters, x_N1D: Tensor, term_N1D: Tensor | None) -> Tensor:
        """Attend to the earlier positions of the beam."""
        cache = self.cache.self_attention[attention.point.layer]
        qkv_NC = cache.project_qkv(x_N1D.flatten(0, 1))
        return cache.append_and_attend(qkv_NC, drop_positions(term_N1D), attention.num_heads)[:, None]

    def attend_cross(self, attention: AttentionParameters, x_N1D: Tensor, term_N1D: Tensor | None) -> Tensor:
        """Attend to the source of the slot's sentence."""
        cache = self.cache.cross_attention[attention.point.layer]
        return cache.attend(attention.query(x_N1D.flatten(0, 1)), drop_positions(term_N1D), attention.num_heads)[
            :, None
        ]
