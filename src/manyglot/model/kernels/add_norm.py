"""Residual, dropout and layer norm in one pass: LN(x + dropout(y + bias + term)).

The sum before the norm and its mean and scale are saved for the backward pass. Gain and shift are vectors, or tables
with a row per language.

Shape letters: N tokens, B sentences, D model width, L languages.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from manyglot.model.guidance.language_matmul import LanguageGroups
from manyglot.model.kernels.dropout_mask import dropout_keep_mask
from manyglot.model.kernels.kernel_arguments import DropoutMaskParameters
from manyglot.model.kernels.partial_sums import reduce_partial_sums
from manyglot.model.sublayer_io import SublayerOutput

FORWARD_LAUNCH = {"ROWS": 4, "num_warps": 4}
BACKWARD_LAUNCH = {"ROWS": 1, "num_warps": 2}
"""Number of rows that a program processes at a time, and its number of warps."""
GRADIENT_CHUNK_ROWS, PROGRAMS_PER_CHUNK = 256, 16
"""Maximum number of rows in a chunk of one language, and number of programs that share it in the backward pass."""


@triton.jit
def normalize_rows(total, column_mask, eps, WIDTH: tl.constexpr):
    """Return normalized rows, means and scales; values beyond the width are zero."""
    mean = tl.sum(total, axis=1) / WIDTH
    centered = tl.where(column_mask, total - mean[:, None], 0.0)
    scale = 1 / tl.sqrt(tl.sum(centered * centered, axis=1) / WIDTH + eps)
    return centered * scale[:, None], mean, scale


@triton.jit
def _scale_and_shift(normed, gain_ptr, shift_ptr, row, columns, mask, WIDTH: tl.constexpr):
    """Apply the gain and shift from the given rows of their tables."""
    offsets = row[:, None].to(tl.int64) * WIDTH + columns[None, :]
    gain = tl.load(gain_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
    return normed * gain + tl.load(shift_ptr + offsets, mask=mask, other=0.0).to(tl.float32)


@triton.jit
def layer_norm_backward(dnormed, normed, scale, WIDTH: tl.constexpr):
    """Return the gradient of the rows before the norm."""
    mean_product = tl.sum(dnormed * normed, axis=1) / WIDTH
    return (dnormed - tl.sum(dnormed, axis=1)[:, None] / WIDTH - normed * mean_product[:, None]) * scale[:, None]


@triton.jit(do_not_specialize=["num_rows", "dropout_index", "threshold"])
def _add_norm_forward_kernel(
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
    dropout_index,
    threshold,
    keep_scale,
    eps,
    WIDTH: tl.constexpr,
    COLUMNS: tl.constexpr,
    ROWS: tl.constexpr,
    DROPOUT: tl.constexpr,
    TERM: tl.constexpr,
    BY_LANGUAGE: tl.constexpr,
):
    rows, columns = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    column_mask = columns < WIDTH
    mask = (rows < num_rows)[:, None] & column_mask[None, :]
    offsets = rows[:, None] * WIDTH + columns[None, :]
    y = tl.load(y_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
    y += tl.load(bias_ptr + columns, mask=column_mask, other=0.0).to(tl.float32)[None, :]
    if TERM:
        y += tl.load(term_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
    if DROPOUT:
        y = tl.where(dropout_keep_mask(seed_ptr, dropout_index, offsets, threshold), y * keep_scale, 0.0)
    total = tl.load(x_ptr + offsets, mask=mask, other=0.0).to(tl.float32) + y
    total = tl.where(mask, total, 0.0).to(sum_ptr.dtype.element_ty)
    tl.store(sum_ptr + offsets, total, mask=mask)
    normed, mean, scale = normalize_rows(total.to(tl.float32), column_mask[None, :], eps, WIDTH)
    if BY_LANGUAGE:
        language = tl.load(language_ptr + rows, mask=rows < num_rows, other=0)
        out = _scale_and_shift(normed, gain_ptr, shift_ptr, language, columns, mask, WIDTH)
    else:
        gain = tl.load(gain_ptr + columns, mask=column_mask, other=0.0).to(tl.float32)
        shift = tl.load(shift_ptr + columns, mask=column_mask, other=0.0).to(tl.float32)
        out = normed * gain[None, :] + shift[None, :]
    tl.store(out_ptr + offsets, out.to(out_ptr.dtype.element_ty), mask=mask)
    tl.store(mean_ptr + rows, mean, mask=rows < num_rows)
    tl.store(scale_ptr + rows, scale, mask=rows < num_rows)


@triton.jit(do_not_specialize=["num_rows", "rows_per_sentence"])
def _add_norm_inference_kernel(
    x_ptr, y_ptr, term_ptr, gain_ptr, shift_ptr, language_ptr, out_ptr, num_rows, rows_per_sentence, eps,
    WIDTH: tl.constexpr, COLUMNS: tl.constexpr, ROWS: tl.constexpr, TERM: tl.constexpr, BY_LANGUAGE: tl.constexpr,
):  # fmt: skip
    rows, columns = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    column_mask = columns < WIDTH
    mask = (rows < num_rows)[:, None] & column_mask[None, :]
    offsets = rows[:, None] * WIDTH + columns[None, :]
    total = tl.load(x_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
    total += tl.load(y_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
    if TERM:
        total += tl.load(term_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
    normed, _, _ = normalize_rows(total, column_mask[None, :], eps, WIDTH)
    if BY_LANGUAGE:
        language = tl.load(language_ptr + rows // rows_per_sentence, mask=rows < num_rows, other=0)
        out = _scale_and_shift(normed, gain_ptr, shift_ptr, language, columns, mask, WIDTH)
    else:
        gain = tl.load(gain_ptr + columns, mask=column_mask, other=0.0).to(tl.float32)
        shift = tl.load(shift_ptr + columns, mask=column_mask, other=0.0).to(tl.float32)
        out = normed * gain[None, :] + shift[None, :]
    tl.store(out_ptr + offsets, out.to(out_ptr.dtype.element_ty), mask=mask)


def add_norm_inference(
    x: Tensor, output: SublayerOutput, gain: Tensor, shift: Tensor, eps: float, language_B: Tensor | None = None
) -> Tensor:
    """Return LN(x + y) without gradients or dropout."""
    y = output.y if output.bias is None else output.y + output.bias
    width, out = x.shape[-1], torch.empty_like(x, memory_format=torch.contiguous_format)
    num_rows, term = x.numel() // width, y if output.term is None else output.term
    rows_per_sentence = 1 if language_B is None else num_rows // len(language_B)
    _add_norm_inference_kernel[(triton.cdiv(num_rows, FORWARD_LAUNCH["ROWS"]),)](
        x.contiguous(), y.contiguous(), term.contiguous(), gain, shift, x if language_B is None else language_B, out,
        num_rows, rows_per_sentence, eps, WIDTH=width, COLUMNS=triton.next_power_of_2(width),
        TERM=output.term is not None, BY_LANGUAGE=language_B is not None, **FORWARD_LAUNCH,
    )  # fmt: skip
    return out


@triton.jit(do_not_specialize=["num_rows", "dropout_index", "threshold"])
def _add_norm_backward_kernel(
    grad1_ptr,
    grad2_ptr,
    grad3_ptr,
    sum_ptr,
    mean_ptr,
    scale_ptr,
    gain_ptr,
    dx_ptr,
    dy_ptr,
    partial_ptr,
    language_ptr,
    chunk_end_ptr,
    num_rows,
    seed_ptr,
    dropout_index,
    threshold,
    keep_scale,
    WIDTH: tl.constexpr,
    COLUMNS: tl.constexpr,
    ROWS: tl.constexpr,
    DROPOUT: tl.constexpr,
    NUM_GRADS: tl.constexpr,
    PROGRAMS_PER_CHUNK: tl.constexpr,
):
    """Process many rows per program, and sum the gradients of gain, shift and bias at the end.

    With PROGRAMS_PER_CHUNK > 0 the rows of a program belong to one chunk, and so to one language.
    """
    program, num_programs = tl.program_id(0), tl.num_programs(0)
    columns = tl.arange(0, COLUMNS)
    column_mask = columns < WIDTH
    if PROGRAMS_PER_CHUNK > 0:
        chunk, step = program // PROGRAMS_PER_CHUNK, PROGRAMS_PER_CHUNK * ROWS
        first, end = tl.load(chunk_end_ptr + chunk - 1, mask=chunk > 0, other=0), tl.load(chunk_end_ptr + chunk)
        gain_ptr += tl.load(language_ptr + first, mask=first < end, other=0) * WIDTH
        first += program % PROGRAMS_PER_CHUNK * ROWS
    else:
        first, end, step = program * ROWS, num_rows, num_programs * ROWS
    gain = tl.load(gain_ptr + columns, mask=column_mask, other=0.0).to(tl.float32)
    dgain = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    dshift = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    dbias = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    for row in range(first, end, step):
        rows = row + tl.arange(0, ROWS)
        mask = (rows < end)[:, None] & column_mask[None, :]
        offsets = rows[:, None] * WIDTH + columns[None, :]
        grad = tl.load(grad1_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
        if NUM_GRADS > 1:
            grad += tl.load(grad2_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
        if NUM_GRADS > 2:
            grad += tl.load(grad3_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
        total = tl.load(sum_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
        mean = tl.load(mean_ptr + rows, mask=rows < end, other=0.0)
        scale = tl.load(scale_ptr + rows, mask=rows < end, other=0.0)
        normed = tl.where(mask, (total - mean[:, None]) * scale[:, None], 0.0)
        dgain += grad * normed
        dshift += grad
        dtotal = layer_norm_backward(grad * gain[None, :], normed, scale, WIDTH)
        tl.store(dx_ptr + offsets, dtotal.to(dx_ptr.dtype.element_ty), mask=mask)
        if DROPOUT:
            dtotal = tl.where(dropout_keep_mask(seed_ptr, dropout_index, offsets, threshold), dtotal * keep_scale, 0.0)
            tl.store(dy_ptr + offsets, dtotal.to(dy_ptr.dtype.element_ty), mask=mask)
        dbias += tl.where(mask, dtotal, 0.0)
    partial_sums = partial_ptr + program * 3 * WIDTH + columns
    tl.store(partial_sums, tl.sum(dgain, axis=0), mask=column_mask)
    tl.store(partial_sums + WIDTH, tl.sum(dshift, axis=0), mask=column_mask)
    tl.store(partial_sums + 2 * WIDTH, tl.sum(dbias, axis=0), mask=column_mask)


class AddNorm(torch.autograd.Function):
    """LN(x + dropout(y + bias + term)), returned three times, so that the kernel can sum the three gradients."""

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
        dropout: DropoutMaskParameters,
        groups: LanguageGroups | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Save the sum and its statistics. With `groups`, which must be sorted, gain and shift are tables."""
        num_rows, width = x_ND.shape
        sum_ND, out_ND = torch.empty_like(x_ND), torch.empty_like(x_ND)
        mean_N, scale_N = torch.empty((2, num_rows), dtype=torch.float32, device=x_ND.device)
        ctx.constants = add_norm_launch_arguments(width, dropout)
        ctx.has_term, ctx.groups = term_ND is not None, groups
        language_N = x_ND if groups is None else groups.lang_B
        _add_norm_forward_kernel[(triton.cdiv(num_rows, FORWARD_LAUNCH["ROWS"]),)](
            x_ND, y_ND, bias_D, y_ND if term_ND is None else term_ND, gain, shift, language_N, sum_ND, out_ND, mean_N,
            scale_N, num_rows, eps=eps, TERM=ctx.has_term, BY_LANGUAGE=groups is not None, **FORWARD_LAUNCH,
            **ctx.constants,
        )  # fmt: skip
        ctx.save_for_backward(sum_ND, mean_N, scale_N, gain)
        ctx.set_materialize_grads(False)
        return out_ND, out_ND.detach(), out_ND.detach()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> Any:
        """Without dropout, x and y share one gradient tensor."""
        sum_ND, mean_N, scale_N, gain = ctx.saved_tensors
        num_rows, width = sum_ND.shape
        dx_ND = torch.empty_like(sum_ND)
        dy_ND = torch.empty_like(sum_ND) if ctx.constants["DROPOUT"] else dx_ND
        used_grads = [grad.contiguous() for grad in grads if grad is not None]
        if ctx.groups is None:
            partial_sums, language_args = allocate_partial_sums(3, width, sum_ND.device), (sum_ND, sum_ND)
        else:
            chunks = ctx.groups.chunks(GRADIENT_CHUNK_ROWS)
            partial_sums = mean_N.new_empty((len(chunks.chunk_end_P) * PROGRAMS_PER_CHUNK, 3, width))
            language_args = ctx.groups.lang_B, chunks.chunk_end_P
        _add_norm_backward_kernel[(len(partial_sums),)](
            used_grads[0], used_grads[len(used_grads) // 2], used_grads[-1], sum_ND, mean_N, scale_N, gain, dx_ND,
            dy_ND, partial_sums, *language_args, num_rows, NUM_GRADS=len(used_grads),
            PROGRAMS_PER_CHUNK=0 if ctx.groups is None else PROGRAMS_PER_CHUNK, **BACKWARD_LAUNCH, **ctx.constants,
        )  # fmt: skip
        if ctx.groups is None:
            dgain, dshift, dbias_D = reduce_partial_sums(partial_sums)
        else:
            sums_PC = partial_sums.view(-1, PROGRAMS_PER_CHUNK, 3 * width).sum(dim=1)
            sums_LC = chunks.membership_LP.to(sums_PC.dtype) @ sums_PC
            dgain, dshift, dbias_LD = sums_LC.view(-1, 3, width).unbind(dim=1)
            dbias_D = dbias_LD.sum(dim=0)
        return dx_ND, dy_ND, dbias_D, dy_ND if ctx.has_term else None, dgain, dshift, None, None, None


def add_norm_launch_arguments(width: int, dropout: DropoutMaskParameters) -> dict[str, Any]:
    """Return the launch arguments for the width and for dropout."""
    return {
        "seed_ptr": dropout.seed,
        "dropout_index": dropout.dropout_index,
        "threshold": round(dropout.probability * 2**32),
        "keep_scale": 1 / (1 - dropout.probability),
        "WIDTH": width,
        "COLUMNS": triton.next_power_of_2(width),
        "DROPOUT": dropout.probability > 0,
    }


def allocate_partial_sums(num_sums: int, width: int, device: torch.device) -> Tensor:
    """Allocate an uninitialized buffer for the partial sums of as many programs as fill the device."""
    num_programs = 16 * torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 3
    return torch.empty((num_programs, num_sums, width), dtype=torch.float32, device=device)
