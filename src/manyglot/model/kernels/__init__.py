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


def kernel_dtype(x: Tensor) -> torch.dtype | None:
    """Return the autocast data type in which kernels compute on x's device; None if kernels cannot be used."""
    if not (x.is_cuda and has_triton() and torch.is_autocast_enabled("cuda")):
        return None
    return torch.get_autocast_dtype("cuda")


def can_use_kernels(x: Tensor) -> bool:
    """Whether kernels accept x: it is on a GPU and in half precision, and Triton is installed."""
    return x.is_cuda and x.dtype in HALF_PRECISION_DTYPES and has_triton()
