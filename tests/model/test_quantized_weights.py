from __future__ import annotations

import pytest
import torch

from manyglot.model.quantized_weights import MIN_QUANTIZED_SIZE, SCALE_SUFFIX, dequantize, quantize

WEIGHTS = {
    "rows": torch.randn(40, 128, generator=torch.Generator().manual_seed(1)),
    "matrix": torch.randn(1, 128, 128, generator=torch.Generator().manual_seed(2)),
    "bias": torch.linspace(-1, 1, 2 * MIN_QUANTIZED_SIZE),
    "small": torch.ones(2, 8),
}


def test_each_row_keeps_its_largest_value_and_about_seven_bits() -> None:
    stored = quantize(WEIGHTS)
    assert {name: tensor.dtype for name, tensor in stored.items()} == {
        **dict.fromkeys(("rows", "matrix"), torch.int8),
        **dict.fromkeys(("rows.scale", "matrix.scale"), torch.float32),
        **dict.fromkeys(("bias", "small"), torch.float16),
    }
    restored = dequantize(stored)
    assert restored.keys() == WEIGHTS.keys()
    for name, weight in WEIGHTS.items():
        limit = weight.abs().amax(dim=-1, keepdim=True)
        torch.testing.assert_close(restored[name].abs().amax(dim=-1, keepdim=True), limit, rtol=1e-3, atol=0)
        assert ((restored[name] - weight).abs() <= limit / 253).all()


def test_rows_of_zeros_stay_zero() -> None:
    zeros = {"rows": torch.zeros(64, 64)}
    assert torch.equal(dequantize(quantize(zeros))["rows"], zeros["rows"])


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("rows.scale", None, "the scale of 'rows' is missing"),
        ("rows.scale", torch.ones(40), "the scale of 'rows' is missing or wrong"),
        ("rows.scale", torch.ones(40, 1, dtype=torch.float16), "the scale of 'rows' is missing or wrong"),
        ("rows", None, f"'rows{SCALE_SUFFIX}' belongs to no tensor"),
        ("rows", torch.ones(40, 128), "belongs to no tensor"),
        ("small", torch.ones(2, 8, dtype=torch.float64), "'small' has the type float64"),
        ("small", torch.ones(8, dtype=torch.int8), "'small' has the type int8"),
    ],
)
def test_other_types_and_scales_are_refused(name: str, value: torch.Tensor | None, message: str) -> None:
    stored = {key: tensor for key, tensor in (quantize(WEIGHTS) | {name: value}).items() if tensor is not None}
    with pytest.raises(ValueError, match=message):
        dequantize(stored)
