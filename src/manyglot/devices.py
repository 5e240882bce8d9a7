"""Where to compute: a device by name, the precision that suits it, and how fast it could be."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from pathlib import Path
from typing import Literal

import torch

from manyglot.errors import MemoryIsFull, SettingsError

Precision = Literal["auto", "float32", "bfloat16"]


def find_device(name: str) -> torch.device:
    """`auto` takes a GPU where there is one; a device that is not there is refused."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        if device.type not in ("cpu", "cuda", "mps"):
            raise RuntimeError
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError):
        raise SettingsError(f"device: '{name}' is not on this machine. Use cpu, or auto.") from None
    return device


def name_of(device: torch.device) -> str:
    """What people call a device: a GPU by its maker's name."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else str(device)


def autocast(device: torch.device, precision: Precision) -> AbstractContextManager[object]:
    """Compute matrix products in bfloat16 where asked, or by default on a GPU; the weights stay float32."""
    return torch.autocast(device.type, dtype=torch.bfloat16) if in_half(device, precision) else nullcontext()


def in_half(device: torch.device, precision: Precision) -> bool:
    """Whether products are computed in bfloat16."""
    return precision == "bfloat16" or (precision == "auto" and device.type == "cuda")


@cache
def cpu_has_half() -> bool:
    """Whether this machine's processor says that it has instructions for bfloat16."""
    try:
        return re.search(r"\b(avx512_bf16|amx_bf16|bf16)\b", Path("/proc/cpuinfo").read_text()) is not None
    except OSError:
        return False


FULL = "DefaultCPUAllocator", "MPS backend out of memory", "CUDA error: out of memory", "CUBLAS_STATUS_ALLOC_FAILED"
"""In the words of PyTorch where the memory of a device is full; there is a type of error for most of CUDA only."""


def says_full(error: Exception) -> bool:
    """Whether an error says that the memory of a device is full."""
    known = isinstance(error, MemoryError | torch.OutOfMemoryError)
    return known or any(words in str(error) for words in FULL)


@contextmanager
def must_fit(device: torch.device, what: str, instead: str) -> Iterator[None]:
    """Say in a line what does not fit into memory, and what to do."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not says_full(error):
            raise
        raise MemoryIsFull(f"{what} does not fit into the memory of {name_of(device)}. {instead}.") from None


PEAKS = {
    "B200": 2250,
    "H200 NVL": 835,
    "H200": 989,
    "GH200 .*": 989,
    "H100 PCIe": 756,
    "H100 NVL": 835,
    "H100 .*": 989,
    "A100[ -].*": 312,
    "A40": 150,
    "A30": 165,
    "A10": 125,
    "L40S": 362,
    "L40": 181,
    "L4": 121,
    "RTX 6000 Ada Generation": 364,
    "RTX A6000": 155,
    "GeForce RTX 5090": 210,
    "GeForce RTX 4090": 165,
    "GeForce RTX 3090": 71,
}
"""Peak speed in bfloat16 by the name of an NVIDIA GPU (a pattern; the first that fits counts), in 10^12 operations a
second: the maker's figures for dense products with sums in float32."""


def peak_speed(device: torch.device, precision: Precision) -> float | None:
    """The most operations a second that a device can do; None where we do not know, or not in bfloat16."""
    if device.type != "cuda" or not in_half(device, precision):
        return None
    name = torch.cuda.get_device_name(device)
    fits = (peak for pattern, peak in PEAKS.items() if re.fullmatch(f"NVIDIA {pattern}", name))
    return None if "MIG" in name else next((peak * 1e12 for peak in fits), None)  # a MIG is a slice of a GPU
