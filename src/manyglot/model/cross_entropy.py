"""The output layer and label-smoothed cross-entropy in one operation, chunk by chunk.

The logits of a chunk are replaced by their gradients in place and multiplied immediately, so that only one chunk of
logits exists at a time. On a GPU in half precision, `kernels/linear_cross_entropy.py` replaces the PyTorch code below.

Shape letters: N tokens, n tokens of a chunk, D model width, V vocabulary.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from manyglot.model import kernels
from manyglot.model.guidance.language_matmul import matmul_dtype
from manyglot.model.output_layer import OutputLayer
from manyglot.vocabulary.subword_model import PAD

LOGITS_CHUNK_TOKENS = 512


def linear_cross_entropy_sum(
    hidden_ND: Tensor, output_layer: OutputLayer, label_N: Tensor, label_smoothing: float
) -> tuple[Tensor, Tensor]:
    """Return the label-smoothed loss of the output layer summed over tokens, and each token's negative log-likelihood.

    Tokens whose label is PAD count as zero.
    """
    dtype, constants = kernels.autocast_kernel_dtype(hidden_ND), (label_N, label_smoothing, PAD)
    if not torch.is_grad_enabled():
        output_layer = output_layer.detach()  # skip its gradient if nobody needs it
    hidden_ND, weight_VD = output_layer.with_bias_as_weights(hidden_ND)
    if dtype is not None:
        from manyglot.model.kernels.linear_cross_entropy import FusedLinearCrossEntropy

        smoothed, nll_N = FusedLinearCrossEntropy.apply(hidden_ND.to(dtype), weight_VD, *constants)  # type: ignore[no-untyped-call]
    else:
        dtype = matmul_dtype(hidden_ND)
        inputs = hidden_ND.to(dtype), weight_VD.to(dtype)
        smoothed, nll_N = ChunkedLinearCrossEntropy.apply(*inputs, *constants)  # type: ignore[no-untyped-call]
    return smoothed, nll_N


class ChunkedLinearCrossEntropy(torch.autograd.Function):
    """The smoothed loss summed over the tokens that have a label, and each token's negative log-likelihood."""

    @staticmethod
    def forward(
        ctx: Any, hidden_ND: Tensor, weight_VD: Tensor, label_N: Tensor, smoothing: float, ignore_index: int
    ) -> tuple[Tensor, Tensor]:
        """Compute both the losses and the gradients; softmax and sums use at least float32."""
        dtype = torch.promote_types(hidden_ND.dtype, torch.float32)
        smoothed, nll_N = hidden_ND.new_zeros((), dtype=dtype), hidden_ND.new_empty(len(hidden_ND), dtype=dtype)
        needs_gradients = any(ctx.needs_input_grad)
        gradients = (torch.empty_like(hidden_ND), torch.zeros_like(weight_VD, dtype=dtype)) if needs_gradients else None
        logits_nV = hidden_ND.new_empty((min(LOGITS_CHUNK_TOKENS, len(hidden_ND)), len(weight_VD)))
        for start in range(0, len(hidden_ND), LOGITS_CHUNK_TOKENS):
            rows = slice(start, start + LOGITS_CHUNK_TOKENS)
            hidden_nD, label_n1 = hidden_ND[rows], label_N[rows, None].long()
            logits_nV = torch.mm(hidden_nD, weight_VD.T, out=logits_nV[: len(hidden_nD)])
            loss_n1, nll_n1, softmax_nV = _losses(logits_nV.to(dtype), label_n1, smoothing)
            has_label_n1 = label_n1 != ignore_index
            smoothed += torch.where(has_label_n1, loss_n1, 0.0).sum()
            nll_N[rows] = torch.where(has_label_n1, nll_n1, 0.0)[:, 0]
            if gradients is None:
                continue
            ones_n1 = torch.full_like(loss_n1, smoothing - 1)
            dlogits_nV = softmax_nV.sub_(smoothing / len(weight_VD)).scatter_add_(1, label_n1, ones_n1)
            dlogits_nV = dlogits_nV.mul_(has_label_n1).to(hidden_ND.dtype)
            torch.mm(dlogits_nV, weight_VD, out=gradients[0][rows])
            if dlogits_nV.dtype == dtype:
                torch.addmm(gradients[1], dlogits_nV.T, hidden_nD, out=gradients[1])
            else:  # accumulate in float32: half precision is too coarse for sums over chunks
                gradients[1].add_(dlogits_nV.T @ hidden_nD)
        if gradients is not None:
            ctx.save_for_backward(*gradients)
            ctx.weight_dtype = weight_VD.dtype
        ctx.mark_non_differentiable(nll_N)
        return smoothed, nll_N

    @staticmethod
    def backward(ctx: Any, grad: Tensor, _: Tensor) -> Any:
        """Scale the gradients of the forward pass."""
        dhidden_ND, dweight_VD = ctx.saved_tensors
        dweight_VD = (dweight_VD * grad).to(ctx.weight_dtype)
        return (dhidden_ND * grad).to(dhidden_ND.dtype), dweight_VD, None, None, None


def _losses(logits_nV: Tensor, label_n1: Tensor, smoothing: float) -> tuple[Tensor, Tensor, Tensor]:
    """Return smoothed loss, negative log-likelihood and softmax of each row; the softmax overwrites the logits."""
    label_logit_n1, mean_n1 = logits_nV.gather(1, label_n1), logits_nV.mean(dim=1, keepdim=True)
    max_n1 = logits_nV.amax(dim=1, keepdim=True)
    softmax_nV = logits_nV.sub_(max_n1).exp_()
    exp_sum_n1 = softmax_nV.sum(dim=1, keepdim=True)
    logsumexp_n1 = max_n1 + exp_sum_n1.log()
    nll_n1 = logsumexp_n1 - label_logit_n1
    return (1 - smoothing) * nll_n1 + smoothing * (logsumexp_n1 - mean_n1), nll_n1, softmax_nV.div_(exp_sum_n1)
