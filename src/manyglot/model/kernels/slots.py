"""Attention of beams in slots: over their own past, and over the source of the slot's sentence.

Keys and values of the past are where they were written: those of a position in the row of the beam that read it, which
may since have been another. So a search moves numbers of beams instead of keys and values.

Shape letters: B slots, K beams, D model width, H heads, T positions that there is room for, M tokens of all sources,
S sentences.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

AT_ONCE = 16
"""Positions that are read together, and beams of a program."""


@triton.jit
def _past_kernel(
    q_ptr, k_ptr, v_ptr, keys_ptr, values_ptr, ancestor_ptr, age_ptr, z_ptr, scale,
    K: tl.constexpr, T: tl.constexpr, D: tl.constexpr, H: tl.constexpr,
    HEADS: tl.constexpr, WIDTH: tl.constexpr, AT_ONCE: tl.constexpr,
):  # fmt: skip
    """One beam, all heads: write its new key and value down, and attend to them and those before."""
    row = tl.program_id(0).to(tl.int64)
    slot = row // K
    age = tl.load(age_ptr + slot).to(tl.int32)
    head, column = tl.arange(0, HEADS)[:, None], tl.arange(0, WIDTH)[None, :]
    across, inside = head * (D // H) + column, (head < H) & (column < D // H)
    q = tl.load(q_ptr + row * D + across, mask=inside, other=0.0).to(tl.float32) * scale
    new_k = tl.load(k_ptr + row * D + across, mask=inside, other=0.0)
    new_v = tl.load(v_ptr + row * D + across, mask=inside, other=0.0)
    here = (row * T + age) * D
    tl.store(keys_ptr + here + across, new_k, mask=inside)
    tl.store(values_ptr + here + across, new_v, mask=inside)
    most = tl.sum(q * new_k.to(tl.float32), axis=1)
    total = tl.full((HEADS,), 1.0, dtype=tl.float32)
    z = new_v.to(tl.float32)
    for start in range(0, age, AT_ONCE):
        position = start + tl.arange(0, AT_ONCE)
        there = position < age
        beam = tl.load(ancestor_ptr + row * T + position, mask=there, other=0).to(tl.int64)
        places = ((slot * K + beam) * T + position)[:, None, None] * D + across[None, :, :]
        seen = there[:, None, None] & inside[None, :, :]
        keys = tl.load(keys_ptr + places, mask=seen, other=0.0).to(tl.float32)
        score = tl.where(there[:, None], tl.sum(q[None, :, :] * keys, axis=2), float("-inf"))
        new = tl.maximum(most, tl.max(score, axis=0))
        weight, kept = tl.exp(score - new[None, :]), tl.exp(most - new)
        values = tl.load(values_ptr + places, mask=seen, other=0.0).to(tl.float32)
        z = z * kept[:, None] + tl.sum(weight[:, :, None] * values, axis=0)
        total, most = total * kept + tl.sum(weight, axis=0), new
    z = z / total[:, None]
    tl.store(z_ptr + row * D + across, z.to(z_ptr.dtype.element_ty), mask=inside)


def attend_past(
    q_BKD: Tensor, k_BKD: Tensor, v_BKD: Tensor, past: tuple[Tensor, Tensor], ancestor_BKT: Tensor, age_B: Tensor,
    num_heads: int,
) -> Tensor:  # fmt: skip
    """Add new keys and values to the past of each beam, and attend to all of it."""
    (num_slots, beam, width), room = q_BKD.shape, ancestor_BKT.shape[2]
    q_BKD, k_BKD, v_BKD = (x.contiguous() for x in (q_BKD, k_BKD, v_BKD))
    z_BKD, head = torch.empty_like(q_BKD), width // num_heads
    _past_kernel[(num_slots * beam,)](
        q_BKD, k_BKD, v_BKD, *past, ancestor_BKT, age_B, z_BKD, head**-0.5,
        K=beam, T=room, D=width, H=num_heads, HEADS=triton.next_power_of_2(num_heads),
        WIDTH=triton.next_power_of_2(head), AT_ONCE=AT_ONCE, num_warps=4,
    )  # fmt: skip
    return z_BKD


@triton.jit
def _sources_kernel(
    q_ptr, keys_ptr, values_ptr, sentence_ptr, start_ptr, length_ptr, z_ptr, scale,
    K: tl.constexpr, D: tl.constexpr, H: tl.constexpr, BEAMS: tl.constexpr, WIDTH: tl.constexpr, AT_ONCE: tl.constexpr,
):  # fmt: skip
    """Some beams of a slot, one head."""
    slot = tl.program_id(0).to(tl.int64)
    sentence = tl.load(sentence_ptr + slot)
    first, length = tl.load(start_ptr + sentence).to(tl.int64), tl.load(length_ptr + sentence).to(tl.int32)
    beam, column = tl.program_id(2) * BEAMS + tl.arange(0, BEAMS), tl.arange(0, WIDTH)
    across = tl.program_id(1) * (D // H) + column
    inside = (beam < K)[:, None] & (column < D // H)[None, :]
    rows = (slot * K + beam)[:, None] * D + across[None, :]
    q = tl.load(q_ptr + rows, mask=inside, other=0.0)
    most = tl.full((BEAMS,), float("-inf"), dtype=tl.float32)
    total = tl.zeros((BEAMS,), dtype=tl.float32)
    z = tl.zeros((BEAMS, WIDTH), dtype=tl.float32)
    for start in range(0, length, AT_ONCE):
        position = start + tl.arange(0, AT_ONCE)
        there = position < length
        places = (first + position)[:, None] * D + across[None, :]
        seen = there[:, None] & (column < D // H)[None, :]
        keys = tl.load(keys_ptr + places, mask=seen, other=0.0)
        score = tl.dot(q, tl.trans(keys), input_precision="ieee") * scale
        score = tl.where(there[None, :], score, float("-inf"))
        new = tl.maximum(most, tl.max(score, axis=1))
        weight, kept = tl.exp(score - new[:, None]), tl.exp(most - new)
        values = tl.load(values_ptr + places, mask=seen, other=0.0)
        z = z * kept[:, None] + tl.dot(weight.to(values.dtype), values, input_precision="ieee")
        total, most = total * kept + tl.sum(weight, axis=1), new
    z = z / total[:, None]
    tl.store(z_ptr + rows, z.to(z_ptr.dtype.element_ty), mask=inside)


def attend_sources(
    q_BKD: Tensor, sources: tuple[Tensor, Tensor], sentence_B: Tensor, start_S: Tensor, length_S: Tensor,
    num_heads: int,
) -> Tensor:  # fmt: skip
    """Attend to the keys and values of each slot's sentence, which follow one another from its start."""
    num_slots, beam, width = q_BKD.shape
    q_BKD, head = q_BKD.contiguous(), width // num_heads
    z_BKD = torch.empty_like(q_BKD)
    _sources_kernel[(num_slots, num_heads, triton.cdiv(beam, AT_ONCE))](
        q_BKD, *sources, sentence_B, start_S, length_S, z_BKD, head**-0.5,
        K=beam, D=width, H=num_heads, BEAMS=AT_ONCE, WIDTH=max(16, triton.next_power_of_2(head)), AT_ONCE=AT_ONCE,
        num_warps=1,
    )  # fmt: skip
    return z_BKD
