"""Triton kernels for a GPU. Every caller also has a plain PyTorch path; training kernels are differentiable."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec

import torch
from torch import Tensor

HALF_PRECISION_DTYPES = (torch.bfloat16, torch.float16)


@cache
def has_triton() -> bool:
    """Whether Triton is installed."""
    return find_spec("triton") is not None


def runs_kernels(device: torch.device) -> bool:
    """Whether the device can run Triton kernels."""
    return device.type == "cuda" and has_triton()


def autocast_kernel_dtype(x: Tensor) -> torch.dtype | None:
    """Return the autocast data type in which kernels compute on x's device; None if kernels cannot be used."""
    if not (runs_kernels(x.device) and torch.is_autocast_enabled("cuda")):
        return None
    return torch.get_autocast_dtype("cuda")


def can_use_kernels(x: Tensor) -> bool:
    """Whether kernels accept x: it is on a GPU and in half precision, and Triton is installed."""
    return runs_kernels(x.device) and x.dtype in HALF_PRECISION_DTYPES
