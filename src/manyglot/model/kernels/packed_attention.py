"""Attention for short sentences: several whole sentences in one tile, forward and backward in one kernel each.

Sentences are concatenated without padding. A group is a run of whole sentences that fits a tile on both sides. Each
program attends within one group and one head; a mask separates the sentences. Only the inputs are saved: the
backward pass recomputes the attention weights. The kernels add the guidance terms to query, key and value while loading
them, and sum the gradients of the biases while computing them.

Shape letters: N query tokens, M key tokens, G groups, D model width, K width of a head, C concatenated widths.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from manyglot.model.kernels.attention_tiles import LONG_TILE, SHORT_TILE
from manyglot.model.kernels.kernel_arguments import PackedMask
from manyglot.model.kernels.partial_sums import reduce_partial_sums


@triton.jit
def _load_tile(pointer, rows, columns, stride, mask, TERM: tl.constexpr, term, term_stride):
    """Load the rows of a head and add the guidance term."""
    x = tl.load(pointer + rows[:, None] * stride + columns[None, :], mask=mask, other=0.0)
    if TERM:
        t = tl.load(term + rows[:, None] * term_stride + columns[None, :], mask=mask, other=0.0)
        x = (x.to(tl.float32) + t.to(tl.float32)).to(x.dtype)
    return x


@triton.jit
def _attention_weights(q, k, query, key, sentence_q, sentence_k, mask_q, mask_k, scale, CAUSAL: tl.constexpr):
    """Return softmax(q k^T) within each sentence; rows outside the group get zero weights."""
    score = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
    sentence_of_q = tl.load(sentence_q + query, mask=mask_q, other=-1)
    sentence_of_k = tl.load(sentence_k + key, mask=mask_k, other=-2)
    attends = sentence_of_q[:, None] == sentence_of_k[None, :]
    if CAUSAL:
        attends = attends & (key[None, :] <= query[:, None])
    score = tl.where(attends, score, -1e30)
    p = tl.exp(score - tl.max(score, axis=1)[:, None])
    p = p / tl.sum(p, axis=1)[:, None]
    return tl.where(attends, p, 0.0)


@triton.jit
def _attention_forward_kernel(
    q_ptr,
    k_ptr,
    v_ptr,
    term_q,
    term_k,
    out_ptr,
    groups,
    sentence_q,
    sentence_k,
    stride_q,
    stride_k,
    stride_v,
    stride_term_q,
    stride_term_k,
    stride_out,
    scale,
    WIDTH: tl.constexpr,
    CAUSAL: tl.constexpr,
    TERM_Q: tl.constexpr,
    TERM_K: tl.constexpr,
    TILE: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Compute z = softmax(q k^T) v of one group and one head."""
    group, head = tl.program_id(0), tl.program_id(1)
    first_q, end_q = tl.load(groups + 4 * group), tl.load(groups + 4 * group + 1)
    first_k, end_k = tl.load(groups + 4 * group + 2), tl.load(groups + 4 * group + 3)
    if first_q == end_q:
        return
    query, key = first_q + tl.arange(0, TILE), first_k + tl.arange(0, TILE)
    column = tl.arange(0, COLUMNS)
    column_mask, columns = column < WIDTH, head * WIDTH + column
    mask_q, mask_k = query < end_q, key < end_k
    tile_mask_q, tile_mask_k = mask_q[:, None] & column_mask[None, :], mask_k[:, None] & column_mask[None, :]
    q = _load_tile(q_ptr, query, columns, stride_q, tile_mask_q, TERM_Q, term_q, stride_term_q)
    k = _load_tile(k_ptr, key, columns, stride_k, tile_mask_k, TERM_K, term_k, stride_term_k)
    v = _load_tile(v_ptr, key, columns, stride_v, tile_mask_k, TERM_K, term_k, stride_term_k)
    p = _attention_weights(q, k, query, key, sentence_q, sentence_k, mask_q, mask_k, scale, CAUSAL)
    z = tl.dot(p.to(v.dtype), v, input_precision="ieee")
    offsets = query[:, None] * stride_out + columns[None, :]
    tl.store(out_ptr + offsets, z.to(out_ptr.dtype.element_ty), mask=tile_mask_q)


@triton.jit
def _attention_backward_kernel(
    q_ptr,
    k_ptr,
    v_ptr,
    term_q,
    term_k,
    grad_ptr,
    dq_ptr,
    dk_ptr,
    dv_ptr,
    dterm_ptr,
    sums_ptr,
    groups,
    sentence_q,
    sentence_k,
    stride_q,
    stride_k,
    stride_v,
    stride_term_q,
    stride_term_k,
    stride_grad,
    stride_dq,
    stride_dk,
    stride_dv,
    stride_dterm,
    scale,
    WIDTH: tl.constexpr,
    CAUSAL: tl.constexpr,
    TERM_Q: tl.constexpr,
    TERM_K: tl.constexpr,
    SHARED_TERM: tl.constexpr,
    TILE: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Compute the gradients of one group and one head; a term shared by q, k and v gets the sum of their gradients."""
    group, head = tl.program_id(0), tl.program_id(1)
    first_q, end_q = tl.load(groups + 4 * group), tl.load(groups + 4 * group + 1)
    first_k, end_k = tl.load(groups + 4 * group + 2), tl.load(groups + 4 * group + 3)
    column = tl.arange(0, COLUMNS)
    column_mask, columns = column < WIDTH, head * WIDTH + column
    width = tl.num_programs(1) * WIDTH
    sums = sums_ptr + 2 * group * width + columns
    if (first_q == end_q) & (first_k == end_k):
        zeros = tl.zeros((COLUMNS,), dtype=tl.float32)
        tl.store(sums, zeros, mask=column_mask)
        tl.store(sums + width, zeros, mask=column_mask)
        return
    query, key = first_q + tl.arange(0, TILE), first_k + tl.arange(0, TILE)
    mask_q, mask_k = query < end_q, key < end_k
    tile_mask_q, tile_mask_k = mask_q[:, None] & column_mask[None, :], mask_k[:, None] & column_mask[None, :]
    q = _load_tile(q_ptr, query, columns, stride_q, tile_mask_q, TERM_Q, term_q, stride_term_q)
    k = _load_tile(k_ptr, key, columns, stride_k, tile_mask_k, TERM_K, term_k, stride_term_k)
    v = _load_tile(v_ptr, key, columns, stride_v, tile_mask_k, TERM_K, term_k, stride_term_k)
    grad = tl.load(grad_ptr + query[:, None] * stride_grad + columns[None, :], mask=tile_mask_q, other=0.0)
    p = _attention_weights(q, k, query, key, sentence_q, sentence_k, mask_q, mask_k, scale, CAUSAL)
    dv = tl.dot(tl.trans(p.to(grad.dtype)), grad, input_precision="ieee")
    dp = tl.dot(grad, tl.trans(v), input_precision="ieee")
    ds = (p * (dp - tl.sum(p * dp, axis=1)[:, None]) * scale).to(q.dtype)
    dq = tl.dot(ds, k, input_precision="ieee")
    dk = tl.dot(tl.trans(ds), q, input_precision="ieee")
    dtype = dq_ptr.dtype.element_ty
    tl.store(dq_ptr + query[:, None] * stride_dq + columns[None, :], dq.to(dtype), mask=tile_mask_q)
    tl.store(dk_ptr + key[:, None] * stride_dk + columns[None, :], dk.to(dtype), mask=tile_mask_k)
    tl.store(dv_ptr + key[:, None] * stride_dv + columns[None, :], dv.to(dtype), mask=tile_mask_k)
    # Sum over the rows with matrix products. The weights of a query sum to one, so the gradient of the value bias is
    # the sum of the gradients of the outputs, and the key bias has no gradient.
    ones, row = tl.full((16, TILE), 1.0, dtype=dtype), tl.arange(0, 16)[:, None]
    first_row = (row == 0) & column_mask[None, :]
    tl.store(sums[None, :] + row * 0, tl.dot(ones, dq.to(dtype), input_precision="ieee"), mask=first_row)
    tl.store(sums[None, :] + row * 0 + width, tl.dot(ones, grad, input_precision="ieee"), mask=first_row)
    if SHARED_TERM:
        total = dq + dk + dv
        tl.store(dterm_ptr + query[:, None] * stride_dterm + columns[None, :], total.to(dtype), mask=tile_mask_q)


class PackedSelfAttention(torch.autograd.Function):
    """Attention of each sentence to itself, from concatenated query, key and value; the term is added to all three.

    The biases are already part of qkv; they are arguments only to receive gradients.
    """

    @staticmethod
    def forward(
        ctx: Any,
        qkv_NC: Tensor,
        query_bias_D: Tensor,
        key_bias_D: Tensor,
        value_bias_D: Tensor,
        term_ND: Tensor | None,
        mask: PackedMask,
        num_heads: int,
    ) -> Tensor:
        """Save the inputs."""
        z_ND = qkv_NC.new_empty((len(qkv_NC), qkv_NC.shape[1] // 3))
        _run_forward(_Inputs(qkv_NC.chunk(3, dim=1), (term_ND, term_ND)), z_ND, mask, num_heads)
        ctx.save_for_backward(qkv_NC, term_ND)
        ctx.constants = mask, num_heads
        return z_ND

    @staticmethod
    def backward(ctx: Any, grad_ND: Tensor) -> Any:
        """The gradient of the term is the sum of the three gradients."""
        qkv_NC, term_ND = ctx.saved_tensors
        dqkv_NC = torch.empty_like(qkv_NC)
        dterm_ND = None if term_ND is None else torch.empty_like(term_ND)
        inputs = _Inputs(qkv_NC.chunk(3, dim=1), (term_ND, term_ND))
        dquery_D, dvalue_D = _run_backward(inputs, grad_ND, dqkv_NC.chunk(3, dim=1), dterm_ND, *ctx.constants)
        return dqkv_NC, dquery_D, torch.zeros_like(dquery_D), dvalue_D, dterm_ND, None, None


class PackedCrossAttention(torch.autograd.Function):
    """Attention of each sentence to its source, from the query and the concatenated key and value.

    The biases are already part of q and kv; they are arguments only to receive gradients. `allocate_gradient` provides
    the buffer for the gradient of kv.
    """

    @staticmethod
    def forward(
        ctx: Any,
        q_ND: Tensor,
        kv_MC: Tensor,
        query_bias_D: Tensor,
        key_bias_D: Tensor,
        value_bias_D: Tensor,
        term_ND: Tensor | None,
        term_MD: Tensor | None,
        mask: PackedMask,
        num_heads: int,
        allocate_gradient: Callable[[Tensor], Tensor] = torch.empty_like,
    ) -> Tensor:
        """Save the inputs."""
        z_ND = torch.empty_like(q_ND)
        _run_forward(_Inputs((q_ND, *kv_MC.chunk(2, dim=1)), (term_ND, term_MD)), z_ND, mask, num_heads)
        ctx.save_for_backward(q_ND, kv_MC, term_ND, term_MD)
        ctx.constants, ctx.allocate_gradient = (mask, num_heads), allocate_gradient
        return z_ND

    @staticmethod
    def backward(ctx: Any, grad_ND: Tensor) -> Any:
        """The gradient of the term of key and value is the sum of their gradients."""
        q_ND, kv_MC, term_ND, term_MD = ctx.saved_tensors
        dq_ND, dkv_MC = torch.empty_like(q_ND), ctx.allocate_gradient(kv_MC)
        dk_MD, dv_MD = dkv_MC.chunk(2, dim=1)
        inputs = _Inputs((q_ND, *kv_MC.chunk(2, dim=1)), (term_ND, term_MD))
        dquery_D, dvalue_D = _run_backward(inputs, grad_ND, (dq_ND, dk_MD, dv_MD), None, *ctx.constants)
        biases = dquery_D, torch.zeros_like(dquery_D), dvalue_D
        terms = None if term_ND is None else dq_ND, None if term_MD is None else dk_MD + dv_MD
        return dq_ND, dkv_MC, *biases, *terms, None, None, None


class _Inputs(NamedTuple):
    """Query, key and value, and two guidance terms: one for the query, and one for key and value."""

    qkv: tuple[Tensor, ...]
    terms: tuple[Tensor | None, Tensor | None]

    def tensors(self) -> list[Tensor]:
        """Return the kernel arguments; a missing term is replaced by a tensor that the kernel does not read."""
        return [*self.qkv, *(self.qkv[0] if term is None else term for term in self.terms)]

    def strides(self) -> list[int]:
        """Return the row strides."""
        return [x.stride(0) for x in self.tensors()]

    def constants(self, mask: PackedMask, num_heads: int) -> dict[str, Any]:
        """Return the constants of a kernel."""
        width = self.qkv[0].shape[1] // num_heads
        return {
            "scale": width**-0.5,
            "WIDTH": width,
            "CAUSAL": mask.causal,
            "TERM_Q": self.terms[0] is not None,
            "TERM_K": self.terms[1] is not None,
            "COLUMNS": max(16, triton.next_power_of_2(width)),
        }


def _run_forward(inputs: _Inputs, z_ND: Tensor, mask: PackedMask, num_heads: int) -> None:
    strides, constants = [*inputs.strides(), z_ND.stride(0)], inputs.constants(mask, num_heads)
    with _streams(z_ND.device) as streams:
        for (groups_G4, tile), stream in zip(_tiles(mask), streams, strict=False):
            with stream:
                _attention_forward_kernel[(len(groups_G4), num_heads)](
                    *inputs.tensors(), z_ND, groups_G4, *_sentences(mask), *strides, **tile, **constants
                )


def _run_backward(
    inputs: _Inputs,
    grad_ND: Tensor,
    gradients: tuple[Tensor, ...],
    dterm_ND: Tensor | None,
    mask: PackedMask,
    num_heads: int,
) -> Tensor:
    """Write the gradients of the inputs; return those of the biases of query and value."""
    outputs = [grad_ND.contiguous(), *gradients, grad_ND if dterm_ND is None else dterm_ND]
    strides = [*inputs.strides(), *(x.stride(0) for x in outputs)]
    constants = inputs.constants(mask, num_heads) | {"SHARED_TERM": dterm_ND is not None}
    num_groups = [len(groups_G4) for groups_G4, _ in _tiles(mask)]
    sums_G2D = torch.empty((sum(num_groups), 2, grad_ND.shape[1]), dtype=torch.float32, device=grad_ND.device)
    sums_by_tile = sums_G2D.split(num_groups)
    with _streams(grad_ND.device) as streams:
        for (groups_G4, tile), sums, stream in zip(_tiles(mask), sums_by_tile, streams, strict=False):
            with stream:
                _attention_backward_kernel[(len(groups_G4), num_heads)](
                    *inputs.tensors(), *outputs, sums, groups_G4, *_sentences(mask), *strides, **tile, **constants
                )
    return reduce_partial_sums(sums_G2D)


@contextmanager
def _streams(device: torch.device) -> Iterator[list[AbstractContextManager[object]]]:
    """Run independent kernels on two streams: the few large tiles alone would leave most of a GPU idle."""
    if device.type != "cuda":
        yield [nullcontext(), nullcontext()]
        return
    main, side = torch.cuda.current_stream(device), _side_stream(device)
    side.wait_stream(main)
    yield [torch.cuda.stream(side), nullcontext()]
    main.wait_stream(side)


@cache
def _side_stream(device: torch.device) -> torch.cuda.Stream:
    return torch.cuda.Stream(device)


def _tiles(mask: PackedMask) -> Iterator[tuple[Tensor, dict[str, int]]]:
    """Yield the groups with the tile size and launch options that suit them."""
    short_G4, long_G4 = mask.groups
    if len(long_G4):  # first, because each takes longest
        yield long_G4, {"TILE": LONG_TILE, "num_warps": 8}
    if len(short_G4):
        yield short_G4, {"TILE": SHORT_TILE, "num_warps": 4, "num_stages": 3, "maxnreg": 128}


def _sentences(mask: PackedMask) -> tuple[Tensor, Tensor]:
    return mask.query.sentence_N, mask.key.sentence_N
