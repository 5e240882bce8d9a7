"""The embedding layer: dropout(LN(s E[id] + position)) in one pass.

The sum before the norm and its mean and scale are saved for the backward pass.

Shape letters: N tokens, D model width, V vocabulary, P positions.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from manyglot.model.kernels.add_norm import (
    BACKWARD_LAUNCH,
    FORWARD_LAUNCH,
    add_norm_launch_arguments,
    allocate_partial_sums,
    layer_norm_backward,
    normalize_rows,
)
from manyglot.model.kernels.dropout_mask import dropout_keep_mask
from manyglot.model.kernels.kernel_arguments import DropoutMaskParameters
from manyglot.model.kernels.partial_sums import reduce_partial_sums


@triton.jit(do_not_specialize=["num_rows", "dropout_index", "threshold"])
def _embedding_forward_kernel(
    table_ptr,
    ids_ptr,
    position_table_ptr,
    position_ptr,
    gain_ptr,
    shift_ptr,
    sum_ptr,
    out_ptr,
    mean_ptr,
    scale_ptr,
    num_rows,
    factor,
    seed_ptr,
    dropout_index,
    threshold,
    keep_scale,
    eps,
    WIDTH: tl.constexpr,
    COLUMNS: tl.constexpr,
    ROWS: tl.constexpr,
    DROPOUT: tl.constexpr,
):
    rows, columns = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    column_mask, row_mask = columns < WIDTH, rows < num_rows
    mask = row_mask[:, None] & column_mask[None, :]
    offsets = rows[:, None] * WIDTH + columns[None, :]
    ids = tl.load(ids_ptr + rows, mask=row_mask, other=0).to(tl.int64)
    position = tl.load(position_ptr + rows, mask=row_mask, other=0)
    embedded = tl.load(table_ptr + ids[:, None] * WIDTH + columns[None, :], mask=mask, other=0.0).to(tl.float32)
    position_embedding = tl.load(
        position_table_ptr + position[:, None] * WIDTH + columns[None, :], mask=mask, other=0.0
    )
    total = (embedded * factor + position_embedding.to(tl.float32)).to(sum_ptr.dtype.element_ty)
    tl.store(sum_ptr + offsets, total, mask=mask)
    normed, mean, scale = normalize_rows(total.to(tl.float32), column_mask[None, :], eps, WIDTH)
    gain = tl.load(gain_ptr + columns, mask=column_mask, other=0.0).to(tl.float32)
    shift = tl.load(shift_ptr + columns, mask=column_mask, other=0.0).to(tl.float32)
    out = normed * gain[None, :] + shift[None, :]
    if DROPOUT:
        out = tl.where(dropout_keep_mask(seed_ptr, dropout_index, offsets, threshold), out * keep_scale, 0.0)
    tl.store(out_ptr + offsets, out.to(out_ptr.dtype.element_ty), mask=mask)
    tl.store(mean_ptr + rows, mean, mask=row_mask)
    tl.store(scale_ptr + rows, scale, mask=row_mask)


@triton.jit(do_not_specialize=["num_rows", "dropout_index", "threshold"])
def _embedding_backward_kernel(
    grad_ptr,
    ids_ptr,
    sum_ptr,
    mean_ptr,
    scale_ptr,
    gain_ptr,
    dtable_ptr,
    partial_ptr,
    num_rows,
    factor,
    padding_idx,
    seed_ptr,
    dropout_index,
    threshold,
    keep_scale,
    WIDTH: tl.constexpr,
    COLUMNS: tl.constexpr,
    ROWS: tl.constexpr,
    DROPOUT: tl.constexpr,
):
    program, num_programs = tl.program_id(0), tl.num_programs(0)
    columns = tl.arange(0, COLUMNS)
    column_mask = columns < WIDTH
    gain = tl.load(gain_ptr + columns, mask=column_mask, other=0.0).to(tl.float32)
    dgain = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    dshift = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    for block in range(program, tl.cdiv(num_rows, ROWS), num_programs):
        rows = block * ROWS + tl.arange(0, ROWS)
        mask = (rows < num_rows)[:, None] & column_mask[None, :]
        offsets = rows[:, None] * WIDTH + columns[None, :]
        ids = tl.load(ids_ptr + rows, mask=rows < num_rows, other=0).to(tl.int64)
        grad = tl.load(grad_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
        if DROPOUT:
            grad = tl.where(dropout_keep_mask(seed_ptr, dropout_index, offsets, threshold), grad * keep_scale, 0.0)
        total = tl.load(sum_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
        mean = tl.load(mean_ptr + rows, mask=rows < num_rows, other=0.0)
        scale = tl.load(scale_ptr + rows, mask=rows < num_rows, other=0.0)
        normed = tl.where(mask, (total - mean[:, None]) * scale[:, None], 0.0)
        dgain += grad * normed
        dshift += grad
        dtotal = layer_norm_backward(grad * gain[None, :], normed, scale, WIDTH) * factor
        has_gradient = mask & (ids != padding_idx)[:, None]
        tl.atomic_add(dtable_ptr + ids[:, None] * WIDTH + columns[None, :], dtotal, mask=has_gradient, sem="relaxed")
    tl.store(partial_ptr + program * 2 * WIDTH + columns, tl.sum(dgain, axis=0), mask=column_mask)
    tl.store(partial_ptr + (program * 2 + 1) * WIDTH + columns, tl.sum(dshift, axis=0), mask=column_mask)


class FusedEmbeddingNormDropout(torch.autograd.Function):
    """dropout(LN(factor E[id] + position)) in the given data type; padding has no gradient."""

    @staticmethod
    def forward(
        ctx: Any,
        table_VD: Tensor,
        ids_N: Tensor,
        position_table_PD: Tensor,
        position_N: Tensor,
        gain_D: Tensor,
        shift_D: Tensor,
        factor: float,
        padding_idx: int,
        eps: float,
        dropout: DropoutMaskParameters,
        dtype: torch.dtype,
    ) -> Tensor:
        """Save the sum and its statistics."""
        num_rows, width = len(ids_N), table_VD.shape[1]
        sum_ND, out_ND = (torch.empty((num_rows, width), dtype=dtype, device=table_VD.device) for _ in range(2))
        mean_N, scale_N = torch.empty((2, num_rows), dtype=torch.float32, device=table_VD.device)
        ctx.constants = {"factor": factor, **add_norm_launch_arguments(width, dropout)}
        _embedding_forward_kernel[(triton.cdiv(num_rows, FORWARD_LAUNCH["ROWS"]),)](
            table_VD, ids_N, position_table_PD, position_N, gain_D, shift_D, sum_ND, out_ND, mean_N, scale_N, num_rows,
            eps=eps, **FORWARD_LAUNCH, **ctx.constants,
        )  # fmt: skip
        ctx.save_for_backward(ids_N, sum_ND, mean_N, scale_N, gain_D)
        ctx.vocabulary, ctx.padding_idx = len(table_VD), padding_idx
        return out_ND

    @staticmethod
    def backward(ctx: Any, grad_ND: Tensor) -> Any:
        """Accumulate the gradients of equal ids in the table."""
        ids_N, sum_ND, mean_N, scale_N, gain_D = ctx.saved_tensors
        num_rows, width = sum_ND.shape
        dtable_VD = torch.zeros((ctx.vocabulary, width), dtype=torch.float32, device=sum_ND.device)
        partial_sums = allocate_partial_sums(2, width, sum_ND.device)
        _embedding_backward_kernel[(len(partial_sums),)](
            grad_ND.contiguous(), ids_N, sum_ND, mean_N, scale_N, gain_D, dtable_VD, partial_sums, num_rows,
            padding_idx=ctx.padding_idx, **BACKWARD_LAUNCH, **ctx.constants,
        )  # fmt: skip
        dgain_D, dshift_D = reduce_partial_sums(partial_sums)
        return dtable_VD, None, None, None, dgain_D, dshift_D, None, None, None, None, None
