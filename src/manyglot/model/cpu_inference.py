"""Weights in the formats that a CPU multiplies fastest: oneDNN's blocked layout, and 8-bit integers.

PyTorch's plain products use MKL in float32, which is slow on some CPUs, and arrange bfloat16 weights anew in every
call. `BlockedLinear` arranges them once. `Int8OutputLayer` approximates the logits of all tokens, to find the few whose
exact logits matter.

Shape letters: N rows, D model width, V vocabulary.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import cache
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from manyglot.devices import cpu_has_int8_instructions

BLOCKED_DTYPES = (torch.float32, torch.bfloat16)
FUSED_ACTIVATIONS: dict[Callable[[Tensor], Tensor], str] = {F.relu: "relu"}
"""Activation functions that oneDNN computes together with a product."""
ACTIVATION_ZERO_POINT, MAX_INT8 = 128, 127


class BlockedLinear(nn.Module):
    """A linear layer for inference on a CPU, with its weight in oneDNN's blocked layout."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        super().__init__()
        self._weight, self._bias = torch.ops.mkldnn._reorder_linear_weight(weight.detach().contiguous(), None), bias

    def forward(self, x: Tensor, activation: str = "none") -> Tensor:
        """Return f(x W + b), where f is the identity or one of `FUSED_ACTIVATIONS`."""
        y = torch.ops.mkldnn._linear_pointwise(x.contiguous(), self._weight, self._bias, activation, [], "")
        return cast(Tensor, y)


class Int8OutputLayer:
    """The output layer in 8-bit integers, with a scale per token; its logits are off by about one percent."""

    def __init__(self, weight_VD: Tensor) -> None:
        scale_V = weight_VD.detach().abs().amax(dim=1).clamp_min(torch.finfo(torch.float32).tiny) / MAX_INT8
        weight_VD = (weight_VD.detach() / scale_V[:, None]).round().to(torch.int8)
        self._weight, self._scale_V = torch.ops.onednn.qlinear_prepack(weight_VD, None), scale_V
        self._zero_point_V = torch.zeros(len(scale_V), dtype=torch.int32)

    def logits(self, hidden_ND: Tensor) -> Tensor:
        """Return approximate logits. Each row has a scale of its own, so the other rows do not change it."""
        hidden_ND = hidden_ND.float()
        scale_N1 = hidden_ND.abs().amax(dim=1, keepdim=True).clamp_min(torch.finfo(torch.float32).tiny) / MAX_INT8
        # oneDNN has fast products only of unsigned activations and signed weights.
        unsigned_ND = ((hidden_ND / scale_N1).round() + ACTIVATION_ZERO_POINT).to(torch.uint8)
        quantization = 1.0, ACTIVATION_ZERO_POINT, self._weight, self._scale_V, self._zero_point_V
        logits_NV: Tensor = torch.ops.onednn.qlinear_pointwise(
            unsigned_ND, *quantization, None, 1.0, 0, torch.float32, "none", [], ""
        )
        return logits_NV.mul_(scale_N1)


def to_cpu_inference(model: nn.Module, dtype: torch.dtype) -> Any:
    """Return a copy of a model with weights of a type, blocked where the CPU supports it.

    The copy shares the weights that are neither blocked nor cast.
    """
    parameters: dict[int, Any] = {
        id(parameter): parameter if parameter.dtype == dtype else nn.Parameter(parameter.to(dtype), requires_grad=False)
        for parameter in model.parameters()
    }
    result = copy.deepcopy(model, parameters)
    if supports_blocked_weights(dtype):
        for parent in list(result.modules()):
            for name, child in parent.named_children():
                if type(child) is nn.Linear:
                    setattr(parent, name, BlockedLinear(child.weight, child.bias))
    return result


def linear_with_activation(x: Tensor, layer: nn.Module, activation: Callable[[Tensor], Tensor]) -> Tensor:
    """Return f(x W + b) with the activation function f, fused where oneDNN can."""
    if isinstance(layer, BlockedLinear) and activation in FUSED_ACTIVATIONS:
        return layer(x, FUSED_ACTIVATIONS[activation])  # type: ignore[no-any-return]
    return activation(layer(x))


@cache
def supports_blocked_weights(dtype: torch.dtype) -> bool:
    """Whether this CPU and PyTorch can multiply blocked weights of a type."""
    if dtype not in BLOCKED_DTYPES or torch.backends.cpu.get_cpu_capability() not in ("AVX2", "AVX512"):
        return False
    try:
        with torch.inference_mode():
            BlockedLinear(torch.ones(8, 8, dtype=dtype), torch.ones(8, dtype=dtype))(torch.ones(1, 1, 8, dtype=dtype))
    except (AttributeError, NotImplementedError, RuntimeError):  # these operators may be missing or change
        return False
    return True


@cache
def supports_int8_output_layer() -> bool:
    """Whether this CPU and PyTorch have fast products of 8-bit integers."""
    if not cpu_has_int8_instructions():
        return False
    try:
        Int8OutputLayer(torch.ones(8, 8)).logits(torch.ones(1, 8))
    except (AttributeError, NotImplementedError, RuntimeError):
        return False
    return True
