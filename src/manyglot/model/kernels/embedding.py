"""The embedding: dropout(LN(s E[id] + position)) in one pass.

The sum before the norm is kept for the backward pass; its statistics are two numbers a row.

Shape letters: N tokens, D model width, V vocabulary, P positions.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from manyglot.model.kernels.arguments import DropoutMask
from manyglot.model.kernels.norm import BACKWARD, FORWARD, constants_of, norm_gradient, normed_rows, partial_sums
from manyglot.model.kernels.random import kept
from manyglot.model.kernels.sums import sum_of_parts


@triton.jit(do_not_specialize=["num_rows", "site", "threshold"])
def _embed_forward(
    table_ptr,
    ids_ptr,
    positions_ptr,
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
    site,
    threshold,
    grow,
    eps,
    WIDTH: tl.constexpr,
    COLUMNS: tl.constexpr,
    ROWS: tl.constexpr,
    DROPOUT: tl.constexpr,
):
    rows, columns = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    real, there = columns < WIDTH, rows < num_rows
    inside = there[:, None] & real[None, :]
    place = rows[:, None] * WIDTH + columns[None, :]
    ids = tl.load(ids_ptr + rows, mask=there, other=0).to(tl.int64)
    position = tl.load(position_ptr + rows, mask=there, other=0)
    embedded = tl.load(table_ptr + ids[:, None] * WIDTH + columns[None, :], mask=inside, other=0.0).to(tl.float32)
    placed = tl.load(positions_ptr + position[:, None] * WIDTH + columns[None, :], mask=inside, other=0.0)
    total = (embedded * factor + placed.to(tl.float32)).to(sum_ptr.dtype.element_ty)
    tl.store(sum_ptr + place, total, mask=inside)
    normed, mean, scale = normed_rows(total.to(tl.float32), real[None, :], eps, WIDTH)
    gain = tl.load(gain_ptr + columns, mask=real, other=0.0).to(tl.float32)
    shift = tl.load(shift_ptr + columns, mask=real, other=0.0).to(tl.float32)
    out = normed * gain[None, :] + shift[None, :]
    if DROPOUT:
        out = tl.where(kept(seed_ptr, site, place, threshold), out * grow, 0.0)
    tl.store(out_ptr + place, out.to(out_ptr.dtype.element_ty), mask=inside)
    tl.store(mean_ptr + rows, mean, mask=there)
    tl.store(scale_ptr + rows, scale, mask=there)


@triton.jit(do_not_specialize=["num_rows", "site", "threshold"])
def _embed_backward(
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
    padding,
    seed_ptr,
    site,
    threshold,
    grow,
    WIDTH: tl.constexpr,
    COLUMNS: tl.constexpr,
    ROWS: tl.constexpr,
    DROPOUT: tl.constexpr,
):
    program, programs = tl.program_id(0), tl.num_programs(0)
    columns = tl.arange(0, COLUMNS)
    real = columns < WIDTH
    gain = tl.load(gain_ptr + columns, mask=real, other=0.0).to(tl.float32)
    dgain = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    dshift = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    for block in range(program, tl.cdiv(num_rows, ROWS), programs):
        rows = block * ROWS + tl.arange(0, ROWS)
        inside = (rows < num_rows)[:, None] & real[None, :]
        place = rows[:, None] * WIDTH + columns[None, :]
        ids = tl.load(ids_ptr + rows, mask=rows < num_rows, other=0).to(tl.int64)
        grad = tl.load(grad_ptr + place, mask=inside, other=0.0).to(tl.float32)
        if DROPOUT:
            grad = tl.where(kept(seed_ptr, site, place, threshold), grad * grow, 0.0)
        total = tl.load(sum_ptr + place, mask=inside, other=0.0).to(tl.float32)
        mean = tl.load(mean_ptr + rows, mask=rows < num_rows, other=0.0)
        scale = tl.load(scale_ptr + rows, mask=rows < num_rows, other=0.0)
        normed = tl.where(inside, (total - mean[:, None]) * scale[:, None], 0.0)
        dgain += grad * normed
        dshift += grad
        dtotal = norm_gradient(grad * gain[None, :], normed, scale, WIDTH) * factor
        learnt = inside & (ids != padding)[:, None]
        tl.atomic_add(dtable_ptr + ids[:, None] * WIDTH + columns[None, :], dtotal, mask=learnt, sem="relaxed")
    tl.store(partial_ptr + program * 2 * WIDTH + columns, tl.sum(dgain, axis=0), mask=real)
    tl.store(partial_ptr + (program * 2 + 1) * WIDTH + columns, tl.sum(dshift, axis=0), mask=real)


class Embed(torch.autograd.Function):
    """dropout(LN(factor E[id] + position)) in the given type; the gradient of a padding symbol is zero."""

    @staticmethod
    def forward(
        ctx: Any,
        table_VD: Tensor,
        ids_N: Tensor,
        positions_PD: Tensor,
        position_N: Tensor,
        gain_D: Tensor,
        shift_D: Tensor,
        factor: float,
        padding: int,
        eps: float,
        dropout: DropoutMask,
        dtype: torch.dtype,
    ) -> Tensor:
        """Keep the sum and its statistics."""
        num_rows, width = len(ids_N), table_VD.shape[1]
        sum_ND, out_ND = (torch.empty((num_rows, width), dtype=dtype, device=table_VD.device) for _ in range(2))
        mean_N, scale_N = torch.empty((2, num_rows), dtype=torch.float32, device=table_VD.device)
        ctx.constants = {"factor": factor, **constants_of(width, dropout)}
        _embed_forward[(triton.cdiv(num_rows, FORWARD["ROWS"]),)](
            table_VD, ids_N, positions_PD, position_N, gain_D, shift_D, sum_ND, out_ND, mean_N, scale_N, num_rows,
            eps=eps, **FORWARD, **ctx.constants,
        )  # fmt: skip
        ctx.save_for_backward(ids_N, sum_ND, mean_N, scale_N, gain_D)
        ctx.vocabulary, ctx.padding = len(table_VD), padding
        return out_ND

    @staticmethod
    def backward(ctx: Any, grad_ND: Tensor) -> Any:
        """Rows of the same symbol are added up in the table."""
        ids_N, sum_ND, mean_N, scale_N, gain_D = ctx.saved_tensors
        num_rows, width = sum_ND.shape
        dtable_VD = torch.zeros((ctx.vocabulary, width), dtype=torch.float32, device=sum_ND.device)
        partial = partial_sums(2, width, sum_ND.device)
        _embed_backward[(len(partial),)](
            grad_ND.contiguous(), ids_N, sum_ND, mean_N, scale_N, gain_D, dtable_VD, partial, num_rows,
            padding=ctx.padding, **BACKWARD, **ctx.constants,
        )  # fmt: skip
        dgain_D, dshift_D = sum_of_parts(partial)
        return dtable_VD, None, None, None, dgain_D, dshift_D, None, None, None, None, None
