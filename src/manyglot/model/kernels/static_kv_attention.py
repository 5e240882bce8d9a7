"""Attention on a static KV cache: beams attend to their own earlier positions and to their slot's source sentence.

Keys and values stay where they were written, in the row of the beam that decoded the position. A beam search therefore
moves beam indices (`ancestor_BKT`) instead of keys and values.

Shape letters: B slots, K beams, N = B·K rows, D model width, C = 3D, H heads, T positions per slot, S sentences.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

SELF_ATTENTION_LAUNCH = {"HEADS": 1, "POSITIONS": 16, "num_warps": 1}
"""Heads per program, and the positions it reads at a time."""
CROSS_ATTENTION_LAUNCH = {"BEAMS": 16, "POSITIONS": 16, "num_warps": 1}
"""Beams per program, and the source positions it reads at a time."""


@triton.jit
def _self_attention_kernel(
    qkv_ptr, term_ptr, keys_ptr, values_ptr, ancestor_ptr, num_decoded_ptr, order_ptr, z_ptr, scale,
    K: tl.constexpr, T: tl.constexpr, D: tl.constexpr, H: tl.constexpr, TERM: tl.constexpr,
    WIDTH: tl.constexpr, HEADS: tl.constexpr, POSITIONS: tl.constexpr,
):  # fmt: skip
    """A few heads of one beam: store its new key and value, and attend to them and all earlier ones."""
    row = tl.program_id(0).to(tl.int64)
    slot = tl.load(order_ptr + row // K)
    num_decoded = tl.load(num_decoded_ptr + slot).to(tl.int32)
    slot_row = slot * K + row % K
    head, column = tl.program_id(1) * HEADS + tl.arange(0, HEADS)[:, None], tl.arange(0, WIDTH)[None, :]
    columns, mask = head * (D // H) + column, (head < H) & (column < D // H)
    q = tl.load(qkv_ptr + row * 3 * D + columns, mask=mask, other=0.0).to(tl.float32)
    new_k = tl.load(qkv_ptr + (row * 3 + 1) * D + columns, mask=mask, other=0.0).to(tl.float32)
    new_v = tl.load(qkv_ptr + (row * 3 + 2) * D + columns, mask=mask, other=0.0).to(tl.float32)
    if TERM:
        term = tl.load(term_ptr + row * D + columns, mask=mask, other=0.0).to(tl.float32)
        q, new_k, new_v = q + term, new_k + term, new_v + term
    new_offset = (slot_row * T + num_decoded) * D
    tl.store(keys_ptr + new_offset + columns, new_k.to(keys_ptr.dtype.element_ty), mask=mask)
    tl.store(values_ptr + new_offset + columns, new_v.to(values_ptr.dtype.element_ty), mask=mask)
    q *= scale
    running_max = tl.sum(q * new_k, axis=1)
    exp_sum = tl.full((HEADS,), 1.0, dtype=tl.float32)
    z = new_v
    for start in range(0, num_decoded, POSITIONS):
        position = start + tl.arange(0, POSITIONS)
        position_mask = position < num_decoded
        beam = tl.load(ancestor_ptr + slot_row * T + position, mask=position_mask, other=0).to(tl.int64)
        offsets = ((slot * K + beam) * T + position)[:, None, None] * D + columns[None, :, :]
        load_mask = position_mask[:, None, None] & mask[None, :, :]
        keys = tl.load(keys_ptr + offsets, mask=load_mask, other=0.0)
        values = tl.load(values_ptr + offsets, mask=load_mask, other=0.0)
        score = tl.sum(q[None, :, :] * keys.to(tl.float32), axis=2)
        score = tl.where(position_mask[:, None], score, float("-inf"))
        new_max = tl.maximum(running_max, tl.max(score, axis=0))
        weight, rescale = tl.exp(score - new_max[None, :]), tl.exp(running_max - new_max)
        z = z * rescale[:, None] + tl.sum(weight[:, :, None] * values.to(tl.float32), axis=0)
        exp_sum, running_max = exp_sum * rescale + tl.sum(weight, axis=0), new_max
    z = z / exp_sum[:, None]
    tl.store(z_ptr + row * D + columns, z.to(z_ptr.dtype.element_ty), mask=mask)


def append_and_self_attend(
    qkv_NC: Tensor, term_ND: Tensor | None, key_and_value: tuple[Tensor, Tensor], ancestor_BKT: Tensor,
    num_decoded_B: Tensor, slot_order_B: Tensor, num_heads: int,
) -> Tensor:  # fmt: skip
    """Append the new keys and values of each beam to the cache, and attend to all of its positions.

    Rows follow `slot_order_B`. The term is added to query, key and value.
    """
    num_rows, width, (_, beam_size, num_positions) = len(qkv_NC), qkv_NC.shape[1] // 3, ancestor_BKT.shape
    z_ND, head_width = qkv_NC.new_empty((num_rows, width)), width // num_heads
    _self_attention_kernel[(num_rows, triton.cdiv(num_heads, SELF_ATTENTION_LAUNCH["HEADS"]))](
        qkv_NC, qkv_NC if term_ND is None else term_ND.contiguous(), *key_and_value, ancestor_BKT, num_decoded_B,
        slot_order_B, z_ND, head_width**-0.5, K=beam_size, T=num_positions, D=width, H=num_heads,
        TERM=term_ND is not None, WIDTH=triton.next_power_of_2(head_width), **SELF_ATTENTION_LAUNCH,
    )  # fmt: skip
    return z_ND


@triton.jit
def _cross_attention_kernel(
    q_ptr, term_ptr, keys_ptr, values_ptr, sentence_ptr, start_ptr, length_ptr, order_ptr, z_ptr, scale,
    K: tl.constexpr, D: tl.constexpr, H: tl.constexpr, TERM: tl.constexpr,
    BEAMS: tl.constexpr, WIDTH: tl.constexpr, POSITIONS: tl.constexpr,
):  # fmt: skip
    """A few beams of one slot, one head."""
    slot_row = tl.program_id(0).to(tl.int64)
    sentence = tl.load(sentence_ptr + tl.load(order_ptr + slot_row))
    first, length = tl.load(start_ptr + sentence).to(tl.int64), tl.load(length_ptr + sentence).to(tl.int32)
    beam, column = tl.program_id(2) * BEAMS + tl.arange(0, BEAMS), tl.arange(0, WIDTH)
    columns = tl.program_id(1) * (D // H) + column
    mask = (beam < K)[:, None] & (column < D // H)[None, :]
    rows = (slot_row * K + beam)[:, None] * D + columns[None, :]
    q = tl.load(q_ptr + rows, mask=mask, other=0.0)
    if TERM:
        q += tl.load(term_ptr + rows, mask=mask, other=0.0)
    running_max = tl.full((BEAMS,), float("-inf"), dtype=tl.float32)
    exp_sum = tl.zeros((BEAMS,), dtype=tl.float32)
    z = tl.zeros((BEAMS, WIDTH), dtype=tl.float32)
    for start in range(0, length, POSITIONS):
        position = start + tl.arange(0, POSITIONS)
        position_mask = position < length
        offsets = (first + position)[:, None] * D + columns[None, :]
        load_mask = position_mask[:, None] & (column < D // H)[None, :]
        keys = tl.load(keys_ptr + offsets, mask=load_mask, other=0.0)
        score = tl.dot(q, tl.trans(keys), input_precision="ieee") * scale
        score = tl.where(position_mask[None, :], score, float("-inf"))
        new_max = tl.maximum(running_max, tl.max(score, axis=1))
        weight, rescale = tl.exp(score - new_max[:, None]), tl.exp(running_max - new_max)
        values = tl.load(values_ptr + offsets, mask=load_mask, other=0.0)
        z = z * rescale[:, None] + tl.dot(weight.to(values.dtype), values, input_precision="ieee")
        exp_sum, running_max = exp_sum * rescale + tl.sum(weight, axis=1), new_max
    z = z / exp_sum[:, None]
    tl.store(z_ptr + rows, z.to(z_ptr.dtype.element_ty), mask=mask)


def cross_attend_sources(
    q_ND: Tensor, term_ND: Tensor | None, key_and_value: tuple[Tensor, Tensor], sentence_B: Tensor, start_S: Tensor,
    length_S: Tensor, slot_order_B: Tensor, num_heads: int,
) -> Tensor:  # fmt: skip
    """Attend to the keys and values of each slot's sentence, which are contiguous from its start.

    Rows follow `slot_order_B`. The term is added to the query.
    """
    num_slots, (num_rows, width) = len(sentence_B), q_ND.shape
    z_ND, head_width, beam_size = torch.empty_like(q_ND), width // num_heads, num_rows // num_slots
    _cross_attention_kernel[(num_slots, num_heads, triton.cdiv(beam_size, CROSS_ATTENTION_LAUNCH["BEAMS"]))](
        q_ND, q_ND if term_ND is None else term_ND.contiguous(), *key_and_value, sentence_B, start_S, length_S,
        slot_order_B, z_ND, head_width**-0.5, K=beam_size, D=width, H=num_heads, TERM=term_ND is not None,
        WIDTH=max(16, triton.next_power_of_2(head_width)), **CROSS_ATTENTION_LAUNCH,
    )  # fmt: skip
    return z_ND
