"""What the decoder remembers of sentences that come and go: each has a slot, with room for the past of its beams.

Slots are at different positions of their sentences, and nothing ever moves: a beam knows which beams of its slot read
the words before (its ancestors), and a slot knows where the source of its sentence is among all of them. So all shapes
are constant, and a GPU can play a step again and again.

Shape letters: B slots, K beams, N = B·K rows, T positions that there is room for, D model width, C = 3D, H heads of
width W, M tokens of all sources, S sentences.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from manyglot.model.kernels import have_kernels


@dataclass
class Slots:
    """Which sentence each slot has, and how far it is."""

    sentence_B: Tensor
    age_B: Tensor
    """Positions that have been read."""
    ancestor_BKT: Tensor
    """The beam of the slot that read the word at each position of a beam's past."""
    order_B: Tensor
    """The slots in the order in which they are decoded."""

    @classmethod
    def empty(cls, num_slots: int, beam: int, room: int, device: torch.device) -> Slots:
        """All with sentence 0, of which nothing has been read."""
        number_B = torch.zeros(num_slots, dtype=torch.long, device=device)
        ancestor_BKT = torch.zeros(num_slots, beam, room, dtype=torch.int16, device=device)
        return cls(number_B, number_B.clone(), ancestor_BKT, torch.arange(num_slots, device=device))

    @property
    def beam(self) -> int:
        """The number of beams of a slot."""
        return self.ancestor_BKT.shape[1]


@dataclass
class Sources:
    """Where each sentence's tokens are among those of all sources."""

    start_S: Tensor
    length_S: Tensor


@dataclass
class Past:
    """The keys and values of a self-attention."""

    slots: Slots
    projection: tuple[Tensor, Tensor]
    """Weight and bias of those to query, key and value, joined."""
    key_BKTD: Tensor
    value_BKTD: Tensor

    def attend(self, qkv_NC: Tensor, term_ND: Tensor | None, num_heads: int) -> Tensor:
        """Write the keys and values of another position down, and attend to all; rows are in the order of the slots.

        A term may come to query, key and value.
        """
        slots, both = self.slots, (self.key_BKTD, self.value_BKTD)
        if qkv_NC.is_cuda and have_kernels():
            from manyglot.model.kernels.slots import attend_past

            return attend_past(qkv_NC, term_ND, both, slots.ancestor_BKT, slots.age_B, slots.order_B, num_heads)
        q_BKD, k_BKD, v_BKD = (
            (x if term_ND is None else x + term_ND).view(len(slots.age_B), slots.beam, -1)
            for x in qkv_NC.chunk(3, dim=1)
        )
        slot_B, age_B11 = slots.order_B, slots.age_B[slots.order_B][:, None, None]
        for all_BKTD, new_BKD in zip(both, (k_BKD, v_BKD), strict=True):
            all_BKTD[slot_B, :, slots.age_B[slot_B]] = new_BKD
        position_T = torch.arange(slots.ancestor_BKT.shape[2], device=qkv_NC.device)
        beam_K1 = torch.arange(slots.beam, device=qkv_NC.device)[:, None]
        beam_BKT = torch.where(position_T == age_B11, beam_K1, slots.ancestor_BKT[slot_B].long())
        k_BKTD, v_BKTD = (each[slot_B[:, None, None], beam_BKT, position_T] for each in both)
        return _attend(q_BKD, k_BKTD, v_BKTD, position_T <= age_B11, num_heads)


@dataclass
class OfSources:
    """The keys and values of a cross-attention."""

    slots: Slots
    sources: Sources
    key_MD: Tensor
    value_MD: Tensor

    def attend(self, q_ND: Tensor, term_ND: Tensor | None, num_heads: int) -> Tensor:
        """Attend to the source of each slot's sentence; a term may come to the query."""
        slots, sources, both = self.slots, self.sources, (self.key_MD, self.value_MD)
        if q_ND.is_cuda and have_kernels():
            from manyglot.model.kernels.slots import attend_sources

            where = slots.sentence_B, sources.start_S, sources.length_S, slots.order_B
            return attend_sources(q_ND, term_ND, both, *where, num_heads)
        q_ND = q_ND if term_ND is None else q_ND + term_ND
        sentence_B = slots.sentence_B[slots.order_B]
        start_B, length_B = sources.start_S[sentence_B], sources.length_S[sentence_B]
        position_T = torch.arange(int(length_B.max()), device=q_ND.device)
        mask_B1T = position_T < length_B[:, None, None]
        place_B1T = (start_B[:, None, None] + position_T) * mask_B1T
        q_BKD = q_ND.view(len(sentence_B), slots.beam, -1)
        return _attend(q_BKD, self.key_MD[place_B1T], self.value_MD[place_B1T], mask_B1T, num_heads)


def _attend(q_BKD: Tensor, k_BKTD: Tensor, v_BKTD: Tensor, mask_BKT: Tensor, num_heads: int) -> Tensor:
    """softmax(q k^T / sqrt(width of a head)) v, each beam with its own keys and values or those of its slot."""
    q_BKHW, k_BKTHW, v_BKTHW = (x.view(*x.shape[:-1], num_heads, -1) for x in (q_BKD, k_BKTD, v_BKTD))
    score_BKTH = (q_BKHW[:, :, None] * k_BKTHW).sum(dim=-1) * q_BKHW.shape[-1] ** -0.5
    weight_BKTH = score_BKTH.masked_fill(~mask_BKT[..., None], -torch.inf).softmax(dim=2)
    z_BKHW: Tensor = (weight_BKTH[..., None] * v_BKTHW).sum(dim=2)
    return z_BKHW.view(-1, q_BKD.shape[-1])


@dataclass
class SlotLayer:
    """The two attentions of a decoder layer."""

    self_attention: Past
    cross_attention: OfSources


@dataclass
class SlotCache:
    """All layers."""

    slots: Slots
    layers: list[SlotLayer]

    @property
    def room(self) -> int:
        """Positions that a sentence may have."""
        return self.slots.ancestor_BKT.shape[2]

    def age(self) -> Tensor:
        """Of the slot of each row."""
        return self.slots.age_B[self.slots.order_B].repeat_interleave(self.slots.beam)
