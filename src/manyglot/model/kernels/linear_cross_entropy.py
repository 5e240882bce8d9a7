"""The output layer and label-smoothed cross-entropy in one operation, chunk by chunk.

The logits of a chunk are overwritten by their gradients and multiplied immediately, so that only one chunk of logits
exists at a time and nothing is computed twice.

Shape letters: N tokens, n tokens of a chunk, D model width, V vocabulary.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from manyglot.model.kernels.attention_tiles import VOCABULARY_MULTIPLE
from manyglot.model.kernels.linear import matmul_to_float32

MAX_LOGITS_CHUNK_TOKENS = 40_960
"""Maximum number of tokens in a chunk."""
BLOCK = 16_384


@triton.jit
def _cross_entropy_kernel(
    logits_ptr,
    label_ptr,
    smoothed_ptr,
    nll_ptr,
    stride,
    ignore_index,
    smoothing,
    VOCABULARY: tl.constexpr,
    PADDED_VOCABULARY: tl.constexpr,
    BLOCK: tl.constexpr,
    GRADIENT: tl.constexpr,
):
    """Process one row in two passes; the second overwrites the logits with softmax(z) - target."""
    LOG2E: tl.constexpr = 1.4426950408889634
    LANES: tl.constexpr = BLOCK // 8
    lane = tl.arange(0, LANES)
    columns = tl.arange(0, 8)[None, :] + 8 * lane[:, None]  # one thread sums 8 adjacent columns
    row = tl.program_id(0).to(tl.int64)
    logits = logits_ptr + row * stride
    label = tl.load(label_ptr + row)
    running_max = tl.full((LANES,), -1e30, dtype=tl.float32)
    exp_sum = tl.zeros((LANES,), dtype=tl.float32)
    logit_sum = tl.zeros((LANES,), dtype=tl.float32)
    for start in range(0, VOCABULARY, BLOCK):
        mask = start + columns < VOCABULARY
        z = tl.load(logits + start + columns, mask=mask, other=-1e30, eviction_policy="evict_last").to(tl.float32)
        logit_sum += tl.sum(tl.where(mask, z, 0.0), axis=1)
        new_max = tl.maximum(running_max, tl.max(z, axis=1))
        exp_sum = exp_sum * tl.exp2((running_max - new_max) * LOG2E) + tl.sum(
            tl.exp2((z - new_max[:, None]) * LOG2E), axis=1
        )
        running_max = new_max
    max_logit = tl.max(running_max, axis=0)
    logsumexp = max_logit + tl.log(tl.sum(exp_sum * tl.exp2((running_max - max_logit) * LOG2E), axis=0))
    has_label = label != ignore_index
    nll = logsumexp - tl.load(logits + label).to(tl.float32)
    smoothed = (1 - smoothing) * nll + smoothing * (logsumexp - tl.sum(logit_sum, axis=0) / VOCABULARY)
    tl.store(nll_ptr + row, tl.where(has_label, nll, 0.0))
    tl.store(smoothed_ptr + row, tl.where(has_label, smoothed, 0.0))
    if GRADIENT:
        tl.debug_barrier()  # read the label's logit before it is overwritten
        for start in range(0, PADDED_VOCABULARY, BLOCK):
            column = start + columns
            z = tl.load(logits + column, mask=column < VOCABULARY, other=-1e30).to(tl.float32)
            gradient = tl.exp2((z - logsumexp) * LOG2E) - smoothing / VOCABULARY
            gradient -= tl.where(column == label, 1 - smoothing, 0.0)
            gradient = tl.where(has_label & (column < VOCABULARY), gradient, 0.0)
            gradient = gradient.to(logits_ptr.dtype.element_ty)
            tl.store(logits + column, gradient, mask=column < PADDED_VOCABULARY, eviction_policy="evict_first")


class FusedLinearCrossEntropy(torch.autograd.Function):
    """The smoothed loss summed over the tokens that have a label, and each token's negative log-likelihood."""

    @staticmethod
    def forward(
        ctx: Any, hidden_ND: Tensor, weight_VD: Tensor, label_N: Tensor, smoothing: float, ignore_index: int
    ) -> tuple[Tensor, Tensor]:
        """Compute both the losses and the gradients."""
        vocabulary, padded_vocabulary = (
            len(weight_VD),
            triton.cdiv(len(weight_VD), VOCABULARY_MULTIPLE) * VOCABULARY_MULTIPLE,
        )
        cast_VD = hidden_ND.new_zeros((padded_vocabulary, weight_VD.shape[1]))
        cast_VD[:vocabulary] = weight_VD
        smoothed_N, nll_N = torch.empty((2, len(hidden_ND)), dtype=torch.float32, device=hidden_ND.device)
        needs_gradients = any(ctx.needs_input_grad)
        dhidden_ND = torch.empty_like(hidden_ND) if needs_gradients else None
        dweight_VD: Tensor | None = None
        chunk_size = _even_chunk_size(len(hidden_ND))
        for start in range(0, len(hidden_ND), chunk_size):
            rows = slice(start, start + chunk_size)
            logits_nV = hidden_ND[rows] @ cast_VD.T
            _cross_entropy_kernel[(len(logits_nV),)](
                logits_nV, label_N[rows], smoothed_N[rows], nll_N[rows], logits_nV.stride(0), ignore_index, smoothing,
                VOCABULARY=vocabulary, PADDED_VOCABULARY=padded_vocabulary, BLOCK=BLOCK, GRADIENT=needs_gradients,
                num_warps=8,
            )  # fmt: skip
            if dhidden_ND is None:
                continue
            torch.mm(logits_nV, cast_VD, out=dhidden_ND[rows])
            part_VD = matmul_to_float32(logits_nV.T, hidden_ND[rows])
            dweight_VD = part_VD if dweight_VD is None else dweight_VD.add_(part_VD)
        ctx.save_for_backward(dhidden_ND, None if dweight_VD is None else dweight_VD[:vocabulary])
        ctx.mark_non_differentiable(nll_N)
        return smoothed_N.sum(), nll_N

    @staticmethod
    def backward(ctx: Any, grad: Tensor, _: Tensor) -> Any:
        """Scale the gradients of the forward pass."""
        dhidden_ND, dweight_VD = ctx.saved_tensors
        return dhidden_ND * grad.to(dhidden_ND.dtype), dweight_VD * grad, None, None, None


def _even_chunk_size(num_tokens: int) -> int:
    """Return a chunk size, a multiple of 8, that makes all chunks about equally large."""
    return 8 * -(-num_tokens // (8 * -(-num_tokens // MAX_LOGITS_CHUNK_TOKENS)))
