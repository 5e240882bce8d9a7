"""Weights in 8-bit integers with a scale per row, for small files.

A large tensor becomes two: the integers under its name, and the scales under its name and `.scale`. A small tensor or a
vector becomes float16.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

MIN_QUANTIZED_SIZE = 4096
"""Tensors with fewer values are stored as float16."""
SCALE_SUFFIX = ".scale"
MAX_INT8 = 127


def quantize(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors to store."""
    stored = {}
    for name, tensor in tensors.items():
        if tensor.ndim < 2 or tensor.numel() < MIN_QUANTIZED_SIZE:
            stored[name] = tensor.to(torch.float16)
            continue
        tensor = tensor.detach().float()
        scale = (tensor.abs().amax(dim=-1, keepdim=True) / MAX_INT8).clamp_min(torch.finfo(torch.float32).tiny)
        stored[name], stored[name + SCALE_SUFFIX] = (tensor / scale).round().to(torch.int8), scale
    return stored


def dequantize(stored: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors as float32. Raise a ValueError if a type or a scale is not one that `quantize` writes."""
    tensors, unused_scales = {}, {name for name, tensor in stored.items() if tensor.dtype == torch.float32}
    for name, tensor in stored.items():
        if tensor.dtype == torch.float16:
            tensors[name] = tensor.float()
        elif tensor.dtype == torch.int8 and tensor.ndim >= 2:
            scale = stored.get(name + SCALE_SUFFIX)
            if scale is None or scale.shape != (*tensor.shape[:-1], 1) or scale.dtype != torch.float32:
                raise ValueError(f"the scale of {name[:100]!r} is missing or wrong")
            unused_scales.remove(name + SCALE_SUFFIX)
            tensors[name] = tensor.float() * scale
        elif tensor.dtype != torch.float32:
            raise ValueError(f"{name[:100]!r} has the type {str(tensor.dtype).removeprefix('torch.')}")
    if unused_scales:
        raise ValueError(f"{min(unused_scales)[:100]!r} belongs to no tensor")
    return tensors
