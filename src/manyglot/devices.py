"""Devices: selection by name, mixed precision, out-of-memory errors and peak speed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from pathlib import Path

import torch

from manyglot.config.precision import Precision
from manyglot.errors import OutOfMemory, SettingsError


def find_device(name: str) -> torch.device:
    """Return the device with this name; `auto` selects a GPU if there is one. Raise an error if it does not exist."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        if device.type not in ("cpu", "cuda", "mps"):
            raise RuntimeError
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError):
        raise SettingsError(f"device: '{name}' does not exist on this machine. Use cpu or auto.") from None
    return device


def device_name(device: torch.device) -> str:
    """Return the display name of a device: the product name of a GPU, otherwise its type."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else str(device)


def autocast(device: torch.device, precision: Precision) -> AbstractContextManager[object]:
    """Return the autocast context for a precision. bfloat16 applies to matrix products; weights stay float32."""
    return torch.autocast(device.type, dtype=torch.bfloat16) if uses_bfloat16(device, precision) else nullcontext()


def uses_bfloat16(device: torch.device, precision: Precision) -> bool:
    """Whether matrix products are computed in bfloat16; `auto` does so on GPUs."""
    return precision == "bfloat16" or (precision == "auto" and device.type == "cuda")


def cpu_supports_bfloat16() -> bool:
    """Whether the CPU reports bfloat16 instructions."""
    return _cpu_reports("avx512_bf16|amx_bf16|bf16")


def cpu_has_int8_instructions() -> bool:
    """Whether the CPU reports instructions for dot products of 8-bit integers."""
    return _cpu_reports("avx512_vnni|avx_vnni|amx_int8")


@cache
def _cpu_reports(names: str) -> bool:
    """Whether the CPU reports one of these instruction sets (a regular expression)."""
    try:
        return re.search(rf"\b({names})\b", Path("/proc/cpuinfo").read_text()) is not None
    except OSError:
        return False


OUT_OF_MEMORY_MESSAGES = (
    "DefaultCPUAllocator",
    "MPS backend out of memory",
    "CUDA error: out of memory",
    "CUBLAS_STATUS_ALLOC_FAILED",
)
"""Parts of PyTorch's out-of-memory messages. Most CUDA errors have their own exception type; these errors do not."""


def is_out_of_memory_error(error: Exception) -> bool:
    """Whether an exception means that the memory of a device is full."""
    has_known_type = isinstance(error, MemoryError | torch.OutOfMemoryError)
    return has_known_type or any(message in str(error) for message in OUT_OF_MEMORY_MESSAGES)


@contextmanager
def report_out_of_memory(device: torch.device, what: str, advice: str) -> Iterator[None]:
    """Turn out-of-memory exceptions into an `OutOfMemory` error that names what does not fit and gives advice."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory_error(error):
            raise
        raise OutOfMemory(f"{what} does not fit into the memory of {device_name(device)}. {advice}.") from None


PEAK_BFLOAT16_TFLOPS = {
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
"""Peak TFLOP/s in bfloat16 by NVIDIA GPU name (regular expressions; the first match counts): the vendor's figures for
dense matrix products with float32 accumulation."""


def bfloat16_peak_flops(device: torch.device, precision: Precision) -> float | None:
    """Return the theoretical bfloat16 peak of a device; None if it is unknown or the precision is not bfloat16."""
    if device.type != "cuda" or not uses_bfloat16(device, precision):
        return None
    name = torch.cuda.get_device_name(device)
    peaks = (peak for pattern, peak in PEAK_BFLOAT16_TFLOPS.items() if re.fullmatch(f"NVIDIA {pattern}", name))
    return None if "MIG" in name else next((peak * 1e12 for peak in peaks), None)  # a MIG is a slice of a GPU
