"""Linear layers, plain and with a ReLU: the library's products, and kernels for what is left of the backward pass.

Weights are kept in float32 and used in the type of the input; their gradients are accumulated in float32.

Shape letters: N tokens, D width in, E width out.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

ROWS, COLUMNS = 32, 128


@triton.jit(do_not_specialize=["num_rows"])
def _sum_columns(
    grad_ptr,
    value_ptr,
    masked_ptr,
    partial_ptr,
    num_rows,
    width,
    RELU: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Add up the rows of some columns; with RELU, of what passes where the value is positive, which is stored."""
    program, programs = tl.program_id(0), tl.num_programs(0)
    columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    total = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    for block in range(program, tl.cdiv(num_rows, ROWS), programs):
        rows = (block * ROWS + tl.arange(0, ROWS)).to(tl.int64)
        inside = (rows < num_rows)[:, None] & (columns < width)[None, :]
        place = rows[:, None] * width + columns[None, :]
        grad = tl.load(grad_ptr + place, mask=inside, other=0.0)
        if RELU:
            value = tl.load(value_ptr + place, mask=inside, other=0.0)
            grad = tl.where(value > 0, grad, 0.0)
            tl.store(masked_ptr + place, grad, mask=inside)
        total += grad.to(tl.float32)
    tl.store(partial_ptr + program * width + columns, tl.sum(total, axis=0), mask=columns < width)


def _summed(grad_NE: Tensor, value_NE: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """The gradient before the ReLU, if there is one, and its sum over the tokens."""
    width = grad_NE.shape[1]
    across = triton.cdiv(width, COLUMNS)
    many = torch.cuda.get_device_properties(grad_NE.device).multi_processor_count if grad_NE.is_cuda else 3
    programs = max(1, 8 * many // across)
    partial = torch.empty((programs, width), dtype=torch.float32, device=grad_NE.device)
    masked_NE = grad_NE if value_NE is None else torch.empty_like(grad_NE)
    _sum_columns[(programs, across)](
        grad_NE, grad_NE if value_NE is None else value_NE, masked_NE, partial, len(grad_NE), width,
        RELU=value_NE is not None, ROWS=ROWS, COLUMNS=COLUMNS, num_warps=4,
    )  # fmt: skip
    return masked_NE, partial.sum(dim=0)


class Linear(torch.autograd.Function):
    """x W^T + b, with or without a ReLU; or x W^T."""

    @staticmethod
    def forward(ctx: Any, x_ND: Tensor, weight_ED: Tensor, bias_E: Tensor | None, relu: bool) -> Tensor:
        """Bias and ReLU are part of the library's product."""
        cast_ED = weight_ED.to(x_ND.dtype)
        if bias_E is None:
            y_NE = x_ND @ cast_ED.T
        else:
            product = torch._addmm_activation if relu else torch.addmm
            y_NE = product(bias_E.to(x_ND.dtype), x_ND, cast_ED.T)
        ctx.save_for_backward(x_ND, cast_ED, y_NE if relu else None)
        ctx.has_bias = bias_E is not None
        return y_NE

    @staticmethod
    def backward(ctx: Any, grad_NE: Tensor) -> Any:
        """The gradients of the weights are float32."""
        x_ND, cast_ED, value_NE = ctx.saved_tensors
        grad_NE, dbias_E = grad_NE.contiguous(), None
        if ctx.has_bias:
            grad_NE, dbias_E = _summed(grad_NE, value_NE)
        return grad_NE @ cast_ED, product_in_float32(grad_NE.T, x_ND), dbias_E, None


def product_in_float32(a: Tensor, b: Tensor) -> Tensor:
    """a b, kept as it was added up."""
    return torch.mm(a, b, out_dtype=torch.float32) if a.is_cuda and a.dtype != torch.float32 else (a @ b).float()
