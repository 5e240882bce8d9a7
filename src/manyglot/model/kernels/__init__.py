"""Kernels for a GPU, in Triton; whoever uses them has a plain way beside it. Those of training are differentiable."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec


@cache
def have_kernels() -> bool:
    """Whether kernels can be used, if there is a GPU."""
    return find_spec("triton") is not None
