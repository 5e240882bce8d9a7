"""Where to compute: a device by name, and the precision that suits it."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Literal

import torch

from manyglot.errors import SettingsError

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


def autocast(device: torch.device, precision: Precision) -> AbstractContextManager[object]:
    """Compute matrix products in bfloat16 where asked, or by default on a GPU; the weights stay float32."""
    return torch.autocast(device.type, dtype=torch.bfloat16) if in_half(device, precision) else nullcontext()


def in_half(device: torch.device, precision: Precision) -> bool:
    """Whether products are computed in bfloat16."""
    return precision == "bfloat16" or (precision == "auto" and device.type == "cuda")
