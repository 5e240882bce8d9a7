"""Operations that are fused for inference, and their plain definitions."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from manyglot.model import kernels
from manyglot.model.cpu_inference import linear_with_activation
from manyglot.model.sublayer_io import GuidedNorm, SublayerOutput


def _uses_inference_kernels(x: Tensor, weight: Tensor) -> bool:
    """Whether inference kernels apply: no gradients, on a GPU, with x and the weights in half precision."""
    if torch.is_grad_enabled() or torch.compiler.is_compiling():
        return False
    return kernels.can_use_kernels(x) and weight.dtype == x.dtype


def feed_forward(x: Tensor, inner: nn.Linear, outer: nn.Linear, activation: Callable[[Tensor], Tensor]) -> Tensor:
    """Return f(x W1 + b1) W2 + b2 with the activation function f."""
    y: Tensor
    if activation is F.relu and x.is_cuda and _uses_inference_kernels(x, inner.weight):
        hidden_NE = torch._addmm_activation(inner.bias, x.flatten(0, -2), inner.weight.T)
        y = outer(hidden_NE).view_as(x)
    else:
        y = outer(linear_with_activation(x, inner, activation))
    return y


def add_norm(residual: Tensor, output: SublayerOutput, norm: GuidedNorm, dropout: nn.Dropout) -> Tensor:
    """Return LN(x + dropout(y)) in the data type of x."""
    if _uses_inference_kernels(residual, norm.shared.weight) and not dropout.training:
        from manyglot.model.kernels.add_norm import add_norm_inference

        language_B = None if norm.language_groups is None else norm.language_groups.lang_B
        return add_norm_inference(residual, output, *norm.gain_and_bias(), norm.shared.eps, language_B)
    return norm(residual + dropout(output.total())).to(residual.dtype)
