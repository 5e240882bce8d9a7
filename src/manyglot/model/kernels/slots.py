"""Attention of beams in slots: over their own past, and over the source of the slot's sentence.

Keys and values of the past are where they were written: those of a position in the row of the beam that read it, which
may since have been another. So a search moves numbers of beams instead of keys and values.

Shape letters: B slots, K beams, N = B·K rows, D model width, C = 3D, H heads, T positions that there is room for, S
sentences.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

PAST = {"HEADS": 1, "AT_ONCE": 16, "num_warps": 1}
"""Heads of a program, and positions that it reads together."""
AT_ONCE = 16
"""Positions of a source that are read together, and beams of a program."""


@triton.jit
def _past_kernel(
    qkv_ptr, term_ptr, keys_ptr, values_ptr, ancestor_ptr, age_ptr, order_ptr, z_ptr, scale,
    K: tl.constexpr, T: tl.constexpr, D: tl.constexpr, H: tl.constexpr, TERM: tl.constexpr,
    WIDTH: tl.constexpr, HEADS: tl.constexpr, AT_ONCE: tl.constexpr,
):  # fmt: skip
    """Some heads of a beam: write its new key and value down, and attend to them and those before."""
    row = tl.program_id(0).to(tl.int64)
    slot = tl.load(order_ptr + row // K)
    age = tl.load(age_ptr + slot).to(tl.int32)
    place = slot * K + row % K
    head, column = tl.program_id(1) * HEADS + tl.arange(0, HEADS)[:, None], tl.arange(0, WIDTH)[None, :]
    across, inside = head * (D // H) + column, (head < H) & (column < D // H)
    q = tl.load(qkv_ptr + row * 3 * D + across, mask=inside, other=0.0).to(tl.float32)
    new_k = tl.load(qkv_ptr + (row * 3 + 1) * D + across, mask=inside, other=0.0).to(tl.float32)
    new_v = tl.load(qkv_ptr + (row * 3 + 2) * D + across, mask=inside, other=0.0).to(tl.float32)
    if TERM:
        term = tl.load(term_ptr + row * D + across, mask=inside, other=0.0).to(tl.float32)
        q, new_k, new_v = q + term, new_k + term, new_v + term
    here = (place * T + age) * D
    tl.store(keys_ptr + here + across, new_k.to(keys_ptr.dtype.element_ty), mask=inside)
    tl.store(values_ptr + here + across, new_v.to(values_ptr.dtype.element_ty), mask=inside)
    q *= scale
    most = tl.sum(q * new_k, axis=1)
    total = tl.full((HEADS,), 1.0, dtype=tl.float32)
    z = new_v
    for start in range(0, age, AT_ONCE):
        position = start + tl.arange(0, AT_ONCE)
        there = position < age
        beam = tl.load(ancestor_ptr + place * T + position, mask=there, other=0).to(tl.int64)
        places = ((slot * K + beam) * T + position)[:, None, None] * D + across[None, :, :]
        seen = there[:, None, None] & inside[None, :, :]
        keys = tl.load(keys_ptr + places, mask=seen, other=0.0)
        values = tl.load(values_ptr + places, mask=seen, other=0.0)
        score = tl.sum(q[None, :, :] * keys.to(tl.float32), axis=2)
        score = tl.where(there[:, None], score, float("-inf"))
        new = tl.maximum(most, tl.max(score, axis=0))
        weight, kept = tl.exp(score - new[None, :]), tl.exp(most - new)
        z = z * kept[:, None] + tl.sum(weight[:, :, None] * values.to(tl.float32), axis=0)
        total, most = total * kept + tl.sum(weight, axis=0), new
    z = z / total[:, None]
    tl.store(z_ptr + row * D + across, z.to(z_ptr.dtype.element_ty), mask=inside)


def attend_past(
    qkv_NC: Tensor, term_ND: Tensor | None, past: tuple[Tensor, Tensor], ancestor_BKT: Tensor, age_B: Tensor,
    order_B: Tensor, num_heads: int,
) -> Tensor:  # fmt: skip
    """Add new keys and values to the past of each beam, and attend to all of it.

    Rows are in some order of the slots; a term may come to query, key and value.
    """
    num_rows, width, (_, beam, room) = len(qkv_NC), qkv_NC.shape[1] // 3, ancestor_BKT.shape
    z_ND, head = qkv_NC.new_empty((num_rows, width)), width // num_heads
    _past_kernel[(num_rows, triton.cdiv(num_heads, PAST["HEADS"]))](
        qkv_NC, qkv_NC if term_ND is None else term_ND.contiguous(), *past, ancestor_BKT, age_B, order_B, z_ND,
        head**-0.5, K=beam, T=room, D=width, H=num_heads, TERM=term_ND is not None,
        WIDTH=triton.next_power_of_2(head), **PAST,
    )  # fmt: skip
    return z_ND


@triton.jit
def _sources_kernel(
    q_ptr, term_ptr, keys_ptr, values_ptr, sentence_ptr, start_ptr, length_ptr, order_ptr, z_ptr, scale,
    K: tl.constexpr, D: tl.constexpr, H: tl.constexpr, TERM: tl.constexpr,
    BEAMS: tl.constexpr, WIDTH: tl.constexpr, AT_ONCE: tl.constexpr,
):  # fmt: skip
    """Some beams of a slot, one head."""
    place = tl.program_id(0).to(tl.int64)
    sentence = tl.load(sentence_ptr + tl.load(order_ptr + place))
    first, length = tl.load(start_ptr + sentence).to(tl.int64), tl.load(length_ptr + sentence).to(tl.int32)
    beam, column = tl.program_id(2) * BEAMS + tl.arange(0, BEAMS), tl.arange(0, WIDTH)
    across = tl.program_id(1) * (D // H) + column
    inside = (beam < K)[:, None] & (column < D // H)[None, :]
    rows = (place * K + beam)[:, None] * D + across[None, :]
    q = tl.load(q_ptr + rows, mask=inside, other=0.0)
    if TERM:
        q += tl.load(term_ptr + rows, mask=inside, other=0.0)
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
    q_ND: Tensor, term_ND: Tensor | None, sources: tuple[Tensor, Tensor], sentence_B: Tensor, start_S: Tensor,
    length_S: Tensor, order_B: Tensor, num_heads: int,
) -> Tensor:  # fmt: skip
    """Attend to the keys and values of each slot's sentence, which follow one another from its start.

    Rows are in some order of the slots; a term may come to the query.
    """
    num_slots, (num_rows, width) = len(sentence_B), q_ND.shape
    z_ND, head, beam = torch.empty_like(q_ND), width // num_heads, num_rows // num_slots
    _sources_kernel[(num_slots, num_heads, triton.cdiv(beam, AT_ONCE))](
        q_ND, q_ND if term_ND is None else term_ND.contiguous(), *sources, sentence_B, start_S, length_S, order_B, z_ND,
        head**-0.5, K=beam, D=width, H=num_heads, TERM=term_ND is not None,
        BEAMS=AT_ONCE, WIDTH=max(16, triton.next_power_of_2(head)), AT_ONCE=AT_ONCE, num_warps=1,
    )  # fmt: skip
    return z_ND
