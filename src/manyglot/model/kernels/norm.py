"""Residual, dropout and layer norm in one pass: LN(x + dropout(y + bias + term)).

The sum before the norm is kept for the backward pass; its statistics are two numbers a row. Gain and shift are vectors,
or tables from which each row takes those of its language.

Shape letters: N tokens, B sentences, D model width, L languages.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from manyglot.model.guidance.products import Choice
from manyglot.model.kernels.arguments import DropoutMask
from manyglot.model.kernels.random import kept
from manyglot.model.kernels.sums import sum_of_parts
from manyglot.model.sublayer import SublayerOutput

FORWARD = {"ROWS": 4, "num_warps": 4}
BACKWARD = {"ROWS": 1, "num_warps": 2}
"""Rows that a program works on at once, and its warps."""
PIECE, SPLIT = 256, 16
"""Rows of one language, at most, whose gradients are added up together, and the programs that share them."""


@triton.jit
def normed_rows(total, real, eps, WIDTH: tl.constexpr):
    """Centre and scale rows; the numbers beyond the width are zero."""
    mean = tl.sum(total, axis=1) / WIDTH
    centred = tl.where(real, total - mean[:, None], 0.0)
    scale = 1 / tl.sqrt(tl.sum(centred * centred, axis=1) / WIDTH + eps)
    return centred * scale[:, None], mean, scale


@triton.jit
def _scaled(normed, gain_ptr, shift_ptr, row, columns, inside, WIDTH: tl.constexpr):
    """Times the gain, plus the shift, that are in the given rows of their tables."""
    place = row[:, None].to(tl.int64) * WIDTH + columns[None, :]
    gain = tl.load(gain_ptr + place, mask=inside, other=0.0).to(tl.float32)
    return normed * gain + tl.load(shift_ptr + place, mask=inside, other=0.0).to(tl.float32)


@triton.jit
def norm_gradient(dnormed, normed, scale, WIDTH: tl.constexpr):
    """The gradient of the rows before the norm."""
    along = tl.sum(dnormed * normed, axis=1) / WIDTH
    return (dnormed - tl.sum(dnormed, axis=1)[:, None] / WIDTH - normed * along[:, None]) * scale[:, None]


@triton.jit(do_not_specialize=["num_rows", "site", "threshold"])
def _add_forward(
    x_ptr,
    y_ptr,
    bias_ptr,
    term_ptr,
    gain_ptr,
    shift_ptr,
    language_ptr,
    sum_ptr,
    out_ptr,
    mean_ptr,
    scale_ptr,
    num_rows,
    seed_ptr,
    site,
    threshold,
    grow,
    eps,
    WIDTH: tl.constexpr,
    COLUMNS: tl.constexpr,
    ROWS: tl.constexpr,
    DROPOUT: tl.constexpr,
    TERM: tl.constexpr,
    BY_LANGUAGE: tl.constexpr,
):
    rows, columns = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    real = columns < WIDTH
    inside = (rows < num_rows)[:, None] & real[None, :]
    place = rows[:, None] * WIDTH + columns[None, :]
    y = tl.load(y_ptr + place, mask=inside, other=0.0).to(tl.float32)
    y += tl.load(bias_ptr + columns, mask=real, other=0.0).to(tl.float32)[None, :]
    if TERM:
        y += tl.load(term_ptr + place, mask=inside, other=0.0).to(tl.float32)
    if DROPOUT:
        y = tl.where(kept(seed_ptr, site, place, threshold), y * grow, 0.0)
    total = tl.load(x_ptr + place, mask=inside, other=0.0).to(tl.float32) + y
    total = tl.where(inside, total, 0.0).to(sum_ptr.dtype.element_ty)
    tl.store(sum_ptr + place, total, mask=inside)
    normed, mean, scale = normed_rows(total.to(tl.float32), real[None, :], eps, WIDTH)
    if BY_LANGUAGE:
        language = tl.load(language_ptr + rows, mask=rows < num_rows, other=0)
        out = _scaled(normed, gain_ptr, shift_ptr, language, columns, inside, WIDTH)
    else:
        gain = tl.load(gain_ptr + columns, mask=real, other=0.0).to(tl.float32)
        shift = tl.load(shift_ptr + columns, mask=real, other=0.0).to(tl.float32)
        out = normed * gain[None, :] + shift[None, :]
    tl.store(out_ptr + place, out.to(out_ptr.dtype.element_ty), mask=inside)
    tl.store(mean_ptr + rows, mean, mask=rows < num_rows)
    tl.store(scale_ptr + rows, scale, mask=rows < num_rows)


@triton.jit(do_not_specialize=["num_rows", "each"])
def _sum_kernel(
    x_ptr, y_ptr, term_ptr, gain_ptr, shift_ptr, language_ptr, out_ptr, num_rows, each, eps,
    WIDTH: tl.constexpr, COLUMNS: tl.constexpr, ROWS: tl.constexpr, TERM: tl.constexpr, BY_LANGUAGE: tl.constexpr,
):  # fmt: skip
    rows, columns = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    real = columns < WIDTH
    inside = (rows < num_rows)[:, None] & real[None, :]
    place = rows[:, None] * WIDTH + columns[None, :]
    total = tl.load(x_ptr + place, mask=inside, other=0.0).to(tl.float32)
    total += tl.load(y_ptr + place, mask=inside, other=0.0).to(tl.float32)
    if TERM:
        total += tl.load(term_ptr + place, mask=inside, other=0.0).to(tl.float32)
    normed, _, _ = normed_rows(total, real[None, :], eps, WIDTH)
    if BY_LANGUAGE:
        language = tl.load(language_ptr + rows // each, mask=rows < num_rows, other=0)
        out = _scaled(normed, gain_ptr, shift_ptr, language, columns, inside, WIDTH)
    else:
        gain = tl.load(gain_ptr + columns, mask=real, other=0.0).to(tl.float32)
        shift = tl.load(shift_ptr + columns, mask=real, other=0.0).to(tl.float32)
        out = normed * gain[None, :] + shift[None, :]
    tl.store(out_ptr + place, out.to(out_ptr.dtype.element_ty), mask=inside)


def sum_norm(
    x: Tensor, output: SublayerOutput, gain: Tensor, shift: Tensor, eps: float, language_B: Tensor | None = None
) -> Tensor:
    """LN(x + y), where nobody asks for gradients."""
    y = output.y if output.bias is None else output.y + output.bias
    width, out = x.shape[-1], torch.empty_like(x, memory_format=torch.contiguous_format)
    num_rows, term = x.numel() // width, y if output.term is None else output.term
    each = 1 if language_B is None else num_rows // len(language_B)
    _sum_kernel[(triton.cdiv(num_rows, FORWARD["ROWS"]),)](
        x.contiguous(), y.contiguous(), term.contiguous(), gain, shift, x if language_B is None else language_B, out,
        num_rows, each, eps, WIDTH=width, COLUMNS=triton.next_power_of_2(width), TERM=output.term is not None,
        BY_LANGUAGE=language_B is not None, **FORWARD,
    )  # fmt: skip
    return out


@triton.jit(do_not_specialize=["num_rows", "site", "threshold"])
def _add_backward(
    grad_ptr,
    second_ptr,
    third_ptr,
    sum_ptr,
    mean_ptr,
    scale_ptr,
    gain_ptr,
    dx_ptr,
    dy_ptr,
    partial_ptr,
    language_ptr,
    ends_ptr,
    num_rows,
    seed_ptr,
    site,
    threshold,
    grow,
    WIDTH: tl.constexpr,
    COLUMNS: tl.constexpr,
    ROWS: tl.constexpr,
    DROPOUT: tl.constexpr,
    WAYS: tl.constexpr,
    SPLIT: tl.constexpr,
):
    """Every program goes through many rows, and adds up the gradients of gain, shift and bias only at the end.

    They are rows from all places, or, where so many programs split each piece, from one piece, which has one language.
    """
    program, programs = tl.program_id(0), tl.num_programs(0)
    columns = tl.arange(0, COLUMNS)
    real = columns < WIDTH
    if SPLIT > 0:
        piece, step = program // SPLIT, SPLIT * ROWS
        first, end = tl.load(ends_ptr + piece - 1, mask=piece > 0, other=0), tl.load(ends_ptr + piece)
        gain_ptr += tl.load(language_ptr + first, mask=first < end, other=0) * WIDTH
        first += program % SPLIT * ROWS
    else:
        first, end, step = program * ROWS, num_rows, programs * ROWS
    gain = tl.load(gain_ptr + columns, mask=real, other=0.0).to(tl.float32)
    dgain = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    dshift = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    dbias = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    for row in range(first, end, step):
        rows = row + tl.arange(0, ROWS)
        inside = (rows < end)[:, None] & real[None, :]
        place = rows[:, None] * WIDTH + columns[None, :]
        grad = tl.load(grad_ptr + place, mask=inside, other=0.0).to(tl.float32)
        if WAYS > 1:
            grad += tl.load(second_ptr + place, mask=inside, other=0.0).to(tl.float32)
        if WAYS > 2:
            grad += tl.load(third_ptr + place, mask=inside, other=0.0).to(tl.float32)
        total = tl.load(sum_ptr + place, mask=inside, other=0.0).to(tl.float32)
        mean = tl.load(mean_ptr + rows, mask=rows < end, other=0.0)
        scale = tl.load(scale_ptr + rows, mask=rows < end, other=0.0)
        normed = tl.where(inside, (total - mean[:, None]) * scale[:, None], 0.0)
        dgain += grad * normed
        dshift += grad
        dtotal = norm_gradient(grad * gain[None, :], normed, scale, WIDTH)
        tl.store(dx_ptr + place, dtotal.to(dx_ptr.dtype.element_ty), mask=inside)
        if DROPOUT:
            dtotal = tl.where(kept(seed_ptr, site, place, threshold), dtotal * grow, 0.0)
            tl.store(dy_ptr + place, dtotal.to(dy_ptr.dtype.element_ty), mask=inside)
        dbias += tl.where(inside, dtotal, 0.0)
    partial = partial_ptr + program * 3 * WIDTH + columns
    tl.store(partial, tl.sum(dgain, axis=0), mask=real)
    tl.store(partial + WIDTH, tl.sum(dshift, axis=0), mask=real)
    tl.store(partial + 2 * WIDTH, tl.sum(dbias, axis=0), mask=real)


class AddNorm(torch.autograd.Function):
    """LN(x + dropout(y + bias + term)), three times: its gradients meet in the kernel, not in passes of their own."""

    @staticmethod
    def forward(
        ctx: Any,
        x_ND: Tensor,
        y_ND: Tensor,
        bias_D: Tensor,
        term_ND: Tensor | None,
        gain: Tensor,
        shift: Tensor,
        eps: float,
        dropout: DropoutMask,
        choice: Choice | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Keep the sum and its statistics. With a choice, which has to be in order, gain and shift are tables."""
        num_rows, width = x_ND.shape
        sum_ND, out_ND = torch.empty_like(x_ND), torch.empty_like(x_ND)
        mean_N, scale_N = torch.empty((2, num_rows), dtype=torch.float32, device=x_ND.device)
        ctx.constants = constants_of(width, dropout)
        ctx.has_term, ctx.choice = term_ND is not None, choice
        language_N = x_ND if choice is None else choice.index_B
        _add_forward[(triton.cdiv(num_rows, FORWARD["ROWS"]),)](
            x_ND, y_ND, bias_D, y_ND if term_ND is None else term_ND, gain, shift, language_N, sum_ND, out_ND, mean_N,
            scale_N, num_rows, eps=eps, TERM=ctx.has_term, BY_LANGUAGE=choice is not None, **FORWARD, **ctx.constants,
        )  # fmt: skip
        ctx.save_for_backward(sum_ND, mean_N, scale_N, gain)
        ctx.set_materialize_grads(False)
        return out_ND, out_ND.detach(), out_ND.detach()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> Any:
        """The gradients of x and y are one tensor where there is no dropout."""
        sum_ND, mean_N, scale_N, gain = ctx.saved_tensors
        num_rows, width = sum_ND.shape
        dx_ND = torch.empty_like(sum_ND)
        dy_ND = torch.empty_like(sum_ND) if ctx.constants["DROPOUT"] else dx_ND
        given = [grad.contiguous() for grad in grads if grad is not None]
        if ctx.choice is None:
            partial, of_rows = partial_sums(3, width, sum_ND.device), (sum_ND, sum_ND)
        else:
            pieces = ctx.choice.pieces(PIECE)
            partial = mean_N.new_empty((len(pieces.ends_P) * SPLIT, 3, width))
            of_rows = ctx.choice.index_B, pieces.ends_P
        _add_backward[(len(partial),)](
            given[0], given[len(given) // 2], given[-1], sum_ND, mean_N, scale_N, gain, dx_ND, dy_ND, partial, *of_rows,
            num_rows, WAYS=len(given), SPLIT=0 if ctx.choice is None else SPLIT, **BACKWARD, **ctx.constants,
        )  # fmt: skip
        if ctx.choice is None:
            dgain, dshift, dbias_D = sum_of_parts(partial)
        else:
            sums_PC = partial.view(-1, SPLIT, 3 * width).sum(dim=1)
            sums_LC = pieces.belongs_LP.to(sums_PC.dtype) @ sums_PC
            dgain, dshift, dbias_LD = sums_LC.view(-1, 3, width).unbind(dim=1)
            dbias_D = dbias_LD.sum(dim=0)
        return dx_ND, dy_ND, dbias_D, dy_ND if ctx.has_term else None, dgain, dshift, None, None, None


def constants_of(width: int, dropout: DropoutMask) -> dict[str, Any]:
    """What kernels with dropout are told of it, and of the width."""
    return {
        "seed_ptr": dropout.seed,
        "site": dropout.site,
        "threshold": round(dropout.probability * 2**32),
        "grow": 1 / (1 - dropout.probability),
        "WIDTH": width,
        "COLUMNS": triton.next_power_of_2(width),
        "DROPOUT": dropout.probability > 0,
    }


def partial_sums(number: int, width: int, device: torch.device) -> Tensor:
    """A place for the sums of as many programs as fill the device."""
    programs = 16 * torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 3
    return torch.empty((programs, number, width), dtype=torch.float32, device=device)
