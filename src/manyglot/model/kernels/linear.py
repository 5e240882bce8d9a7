"""Linear and feed-forward layers: PyTorch's matrix products, and a kernel for the backward pass of ReLU.

Weights are stored in float32 and used in half precision; their gradients are accumulated in float32.

Shape letters: N tokens, D width in, E width out.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.tools.tensor_descriptor import TensorDescriptor

from manyglot.model.kernels.partial_sums import reduce_partial_sums

TILE = {"ROWS": 128, "COLUMNS": 128, "DEPTH": 32, "num_warps": 4, "num_stages": 4}


@triton.jit
def _relu_backward_kernel(
    grad, weight, value, out, sums_ptr, D: tl.constexpr, E: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr,
):  # fmt: skip
    """Compute one tile of grad weight, zeroed where the value is not positive, and its sum over the rows."""
    num_column_tiles: tl.constexpr = (E + COLUMNS - 1) // COLUMNS
    down, first = tl.program_id(0) // num_column_tiles, tl.program_id(0) % num_column_tiles * COLUMNS
    row = down * ROWS
    total = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    for depth in range(0, D, DEPTH):
        total = tl.dot(grad.load([row, depth]), weight.load([depth, first]), total, input_precision="ieee")
    total = tl.where(value.load([row, first]) > 0, total, 0.0)
    out.store([row, first], total.to(out.dtype))
    columns = first + tl.arange(0, COLUMNS)
    tl.store(sums_ptr + down * E + columns, tl.sum(total, axis=0), mask=columns < E)


def _relu_backward(grad_ND: Tensor, weight_DE: Tensor, value_NE: Tensor) -> tuple[Tensor, Tensor]:
    """Return the gradient before a ReLU that is followed by a product, and its sum over the tokens."""
    rows, columns, depth = TILE["ROWS"], TILE["COLUMNS"], TILE["DEPTH"]
    (width_in, width), down = weight_DE.shape, triton.cdiv(len(grad_ND), rows)
    out_NE = torch.empty_like(value_NE)
    sums = torch.empty((down, width), dtype=torch.float32, device=grad_ND.device)
    blocks = (rows, depth), (depth, columns), (rows, columns), (rows, columns)
    tensors = grad_ND, weight_DE, value_NE, out_NE
    described = [TensorDescriptor.from_tensor(x, list(block)) for x, block in zip(tensors, blocks, strict=True)]
    _relu_backward_kernel[(down * triton.cdiv(width, columns),)](*described, sums, D=width_in, E=width, **TILE)
    return out_NE, reduce_partial_sums(sums)


class MixedPrecisionLinear(torch.autograd.Function):
    """x W^T + b, or x W^T, for one matrix or several concatenated ones. The caller passes half-precision copies.

    The gradient of the bias is not computed here; the kernel that consumes the result computes it.
    """

    @staticmethod
    def forward(
        ctx: Any, x_ND: Tensor, half_weight_ED: Tensor, half_bias_E: Tensor | None, *master_weights: Tensor
    ) -> Tensor:
        """Add the bias as part of the matrix product."""
        ctx.save_for_backward(x_ND, half_weight_ED)
        ctx.sizes = [len(weight) for weight in master_weights]
        return x_ND @ half_weight_ED.T if half_bias_E is None else torch.addmm(half_bias_E, x_ND, half_weight_ED.T)

    @staticmethod
    def backward(ctx: Any, grad_NE: Tensor) -> Any:
        """Return the gradients of the weights in float32."""
        x_ND, half_weight_ED = ctx.saved_tensors
        return grad_NE @ half_weight_ED, None, None, *matmul_to_float32(grad_NE.T, x_ND).split(ctx.sizes)


class ConcatenatedGradients:
    """One buffer for the gradients of several layers, so that they can be multiplied in one product."""

    def __init__(self, num_parts: int) -> None:
        self.num_parts = num_parts
        self.parts: tuple[Tensor, ...] = ()

    def part_buffer(self, index: int, like_NE: Tensor) -> Tensor:
        """Return the part of the buffer for the gradient of one layer."""
        if not self.parts:
            self.parts = like_NE.new_empty((len(like_NE), self.num_parts * like_NE.shape[1])).chunk(
                self.num_parts, dim=1
            )
        return self.parts[index]

    def concatenate(self, grads: tuple[Tensor, ...]) -> Tensor:
        """Return all gradients concatenated, without a copy if they were written into the buffer."""
        is_in_place = self.parts and all(a.data_ptr() == b.data_ptr() for a, b in zip(grads, self.parts, strict=True))
        joined = self.parts[0]._base if is_in_place else None
        return torch.cat(grads, dim=1) if joined is None else joined


class ConcatenatedLinear(torch.autograd.Function):
    """x W^T + b of several layers as one product, forward and backward; otherwise like `MixedPrecisionLinear`."""

    @staticmethod
    def forward(
        ctx: Any,
        x_ND: Tensor,
        half_weight_ED: Tensor,
        half_bias_E: Tensor,
        concatenated_gradients: ConcatenatedGradients,
        *master_weights: Tensor,
    ) -> tuple[Tensor, ...]:
        """Return the results of the layers as views of one tensor."""
        ctx.save_for_backward(x_ND, half_weight_ED)
        ctx.concatenated_gradients, ctx.sizes = concatenated_gradients, [len(weight) for weight in master_weights]
        return torch.addmm(half_bias_E, x_ND, half_weight_ED.T).chunk(concatenated_gradients.num_parts, dim=1)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        """Compute the gradients as for a single layer."""
        x_ND, half_weight_ED = ctx.saved_tensors
        grad_NE = ctx.concatenated_gradients.concatenate(grads)
        return grad_NE @ half_weight_ED, None, None, None, *matmul_to_float32(grad_NE.T, x_ND).split(ctx.sizes)


class FusedFeedForward(torch.autograd.Function):
    """relu(x W1^T + b1) W2^T. The caller passes half-precision copies of all three."""

    @staticmethod
    def forward(
        ctx: Any,
        x_ND: Tensor,
        halves: tuple[Tensor, Tensor, Tensor],
        inner_ED: Tensor,
        bias_E: Tensor,
        outer_DE: Tensor,
    ) -> Tensor:
        """Apply bias and ReLU as part of the matrix product."""
        half_weight_ED, half_bias_E, half_DE = halves
        hidden_NE = torch._addmm_activation(half_bias_E, x_ND, half_weight_ED.T)
        ctx.save_for_backward(x_ND, hidden_NE, half_weight_ED, half_DE)
        return hidden_NE @ half_DE.T

    @staticmethod
    def backward(ctx: Any, grad_ND: Tensor) -> Any:
        """Sum the gradient of the bias in the kernel that computes the gradient before the ReLU."""
        x_ND, hidden_NE, half_weight_ED, half_DE = ctx.saved_tensors
        dhidden_NE, dbias_E = _relu_backward(grad_ND, half_DE, hidden_NE)
        dinner_ED, douter_DE = matmul_to_float32(dhidden_NE.T, x_ND), matmul_to_float32(grad_ND.T, hidden_NE)
        return dhidden_NE @ half_weight_ED, None, dinner_ED, dbias_E, douter_DE


def matmul_to_float32(a: Tensor, b: Tensor) -> Tensor:
    """Return a b in float32, without rounding the accumulated sums to half precision."""
    return torch.mm(a, b, out_dtype=torch.float32) if a.is_cuda and a.dtype != torch.float32 else (a @ b).float()
