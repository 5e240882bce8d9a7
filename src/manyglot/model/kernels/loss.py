"""Output layer and label-smoothed cross-entropy together, a chunk of tokens at a time.

The logits of a chunk are overwritten by their gradients, and these are multiplied out at once: no more than a chunk of
logits ever exists, and nothing is computed twice.

Shape letters: N tokens, n of a chunk, D model width, V vocabulary.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from manyglot.model.kernels.linear import product_in_float32

CHUNK = 40_960
"""Most tokens of a chunk."""
BLOCK = 16_384
WHOLE = 64
"""The vocabulary is filled up to a multiple of this: the library's products are several times slower without."""


@triton.jit
def _cross_entropy(
    logits_ptr,
    label_ptr,
    smoothed_ptr,
    nll_ptr,
    stride,
    ignored,
    smoothing,
    VOCABULARY: tl.constexpr,
    FILLED: tl.constexpr,
    BLOCK: tl.constexpr,
    GRADIENT: tl.constexpr,
):
    """One row: twice through its logits, the second time to write softmax(z) - target over them."""
    LOG2E: tl.constexpr = 1.4426950408889634
    LANES: tl.constexpr = BLOCK // 8
    lane = tl.arange(0, LANES)
    columns = tl.arange(0, 8)[None, :] + 8 * lane[:, None]  # of one thread, which adds them up by itself
    row = tl.program_id(0).to(tl.int64)
    logits = logits_ptr + row * stride
    label = tl.load(label_ptr + row)
    most = tl.full((LANES,), -1e30, dtype=tl.float32)
    total = tl.zeros((LANES,), dtype=tl.float32)
    plain = tl.zeros((LANES,), dtype=tl.float32)
    for start in range(0, VOCABULARY, BLOCK):
        inside = start + columns < VOCABULARY
        z = tl.load(logits + start + columns, mask=inside, other=-1e30, eviction_policy="evict_last").to(tl.float32)
        plain += tl.sum(tl.where(inside, z, 0.0), axis=1)
        new = tl.maximum(most, tl.max(z, axis=1))
        total = total * tl.exp2((most - new) * LOG2E) + tl.sum(tl.exp2((z - new[:, None]) * LOG2E), axis=1)
        most = new
    highest = tl.max(most, axis=0)
    log_total = highest + tl.log(tl.sum(total * tl.exp2((most - highest) * LOG2E), axis=0))
    real = label != ignored
    nll = log_total - tl.load(logits + label).to(tl.float32)
    smoothed = (1 - smoothing) * nll + smoothing * (log_total - tl.sum(plain, axis=0) / VOCABULARY)
    tl.store(nll_ptr + row, tl.where(real, nll, 0.0))
    tl.store(smoothed_ptr + row, tl.where(real, smoothed, 0.0))
    if GRADIENT:
        tl.debug_barrier()  # the label's logit is read before it is written over
        for start in range(0, FILLED, BLOCK):
            place = start + columns
            z = tl.load(logits + place, mask=place < VOCABULARY, other=-1e30).to(tl.float32)
            gradient = tl.exp2((z - log_total) * LOG2E) - smoothing / VOCABULARY
            gradient -= tl.where(place == label, 1 - smoothing, 0.0)
            gradient = tl.where(real & (place < VOCABULARY), gradient, 0.0)
            gradient = gradient.to(logits_ptr.dtype.element_ty)
            tl.store(logits + place, gradient, mask=place < FILLED, eviction_policy="evict_first")


class LinearCrossEntropy(torch.autograd.Function):
    """The sum of the smoothed loss over the tokens that have a label, and each one's negative log-likelihood."""

    @staticmethod
    def forward(
        ctx: Any, hidden_ND: Tensor, weight_VD: Tensor, label_N: Tensor, smoothing: float, ignored: int
    ) -> tuple[Tensor, Tensor]:
        """The gradients are computed here too."""
        vocabulary, filled = len(weight_VD), triton.cdiv(len(weight_VD), WHOLE) * WHOLE
        cast_VD = hidden_ND.new_zeros((filled, weight_VD.shape[1]))
        cast_VD[:vocabulary] = weight_VD
        smoothed_N, nll_N = torch.empty((2, len(hidden_ND)), dtype=torch.float32, device=hidden_ND.device)
        needed = any(ctx.needs_input_grad)
        dhidden_ND = torch.empty_like(hidden_ND) if needed else None
        dweight_VD: Tensor | None = None
        step = _even_step(len(hidden_ND))
        for start in range(0, len(hidden_ND), step):
            rows = slice(start, start + step)
            logits_nV = hidden_ND[rows] @ cast_VD.T
            _cross_entropy[(len(logits_nV),)](
                logits_nV, label_N[rows], smoothed_N[rows], nll_N[rows], logits_nV.stride(0), ignored, smoothing,
                VOCABULARY=vocabulary, FILLED=filled, BLOCK=BLOCK, GRADIENT=needed, num_warps=8,
            )  # fmt: skip
            if dhidden_ND is None:
                continue
            torch.mm(logits_nV, cast_VD, out=dhidden_ND[rows])
            part_VD = product_in_float32(logits_nV.T, hidden_ND[rows])
            dweight_VD = part_VD if dweight_VD is None else dweight_VD.add_(part_VD)
        ctx.save_for_backward(dhidden_ND, None if dweight_VD is None else dweight_VD[:vocabulary])
        ctx.mark_non_differentiable(nll_N)
        return smoothed_N.sum(), nll_N

    @staticmethod
    def backward(ctx: Any, grad: Tensor, _: Tensor) -> Any:
        """Scale what was computed before."""
        dhidden_ND, dweight_VD = ctx.saved_tensors
        return dhidden_ND * grad.to(dhidden_ND.dtype), dweight_VD * grad, None, None, None


def _even_step(number: int) -> int:
    """Tokens of a chunk, so that all chunks are about as large."""
    return 8 * -(-number // (8 * -(-number // CHUNK)))
