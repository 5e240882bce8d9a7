from __future__ import annotations

import pytest
import torch

from manyglot.devices import bfloat16_peak_flops

GPU = torch.device("cuda", 0)


@pytest.mark.parametrize(
    ("name", "peak"),
    [
        ("NVIDIA H200", 989e12),
        ("NVIDIA H200 NVL", 835e12),
        ("NVIDIA H100 80GB HBM3", 989e12),
        ("NVIDIA H100 PCIe", 756e12),
        ("NVIDIA H100 80GB HBM3 MIG 1g.10gb", None),
        ("NVIDIA A100-SXM4-80GB", 312e12),
        ("NVIDIA A100 80GB PCIe", 312e12),
        ("NVIDIA A10", 125e12),
        ("NVIDIA A10G", None),
        ("NVIDIA L4", 121e12),
        ("NVIDIA L40S", 362e12),
        ("NVIDIA GeForce RTX 4090", 165e12),
        ("NVIDIA GeForce RTX 4090 Laptop GPU", None),
        ("Tesla V100-SXM2-16GB", None),
    ],
)
def test_peak_speed_is_looked_up_by_gpu_name(name: str, peak: float | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: name)
    assert bfloat16_peak_flops(GPU, "auto") == peak
    assert bfloat16_peak_flops(GPU, "float32") is None


def test_a_cpu_has_no_peak_speed() -> None:
    assert bfloat16_peak_flops(torch.device("cpu"), "bfloat16") is None
