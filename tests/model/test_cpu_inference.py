"""Blocked weights and 8-bit logits compute what plain products do, up to rounding."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from manyglot import devices
from manyglot.model import cpu_inference
from manyglot.model.cpu_inference import (
    BlockedLinear,
    Int8OutputLayer,
    linear_with_activation,
    supports_blocked_weights,
    supports_int8_output_layer,
    to_cpu_inference,
)
from manyglot.model.guidance import parse_method_settings
from tests.conftest import tiny_model

blocked = pytest.mark.skipif(not supports_blocked_weights(torch.float32), reason="this CPU has no blocked weights")
int8 = pytest.mark.skipif(not supports_int8_output_layer(), reason="this CPU has no products of 8-bit integers")


@blocked
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shape", [(1, 24), (3, 1, 24), (2, 7, 24), (130, 24)])
def test_a_blocked_layer_is_the_plain_layer(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    if not supports_blocked_weights(dtype):
        pytest.skip("this CPU has no such blocked weights")
    torch.manual_seed(0)
    plain, x = nn.Linear(24, 40).to(dtype), torch.randn(shape).to(dtype)
    layer, tolerance = BlockedLinear(plain.weight, plain.bias.detach()), 1e-5 if dtype == torch.float32 else 0.05
    with torch.inference_mode():
        assert torch.allclose(layer(x), plain(x), atol=tolerance)
        for activation in (F.relu, F.gelu, F.silu):
            assert torch.allclose(linear_with_activation(x, layer, activation), activation(plain(x)), atol=tolerance)
        every_second = torch.randn(6, 48).to(dtype)[:, ::2]
        assert torch.allclose(layer(every_second), plain(every_second), atol=tolerance)


@blocked
def test_the_copy_of_a_model_shares_what_is_not_cast() -> None:
    model = tiny_model([parse_method_settings({"method": "laa", "init_gain": 1.0})]).float()
    before = copy.deepcopy(model.state_dict())
    fast = to_cpu_inference(model, torch.float32)
    assert fast.embedding.weight is model.embedding.weight
    assert isinstance(fast.encoder[0].ffn.inner, BlockedLinear)
    assert isinstance(model.encoder[0].ffn.inner, nn.Linear)
    half = to_cpu_inference(model, torch.bfloat16)
    assert half.embedding.weight.dtype == torch.bfloat16
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    source_BS, input_BT, lang_B = torch.tensor([[5, 6, 7]]), torch.tensor([[2, 8, 9]]), torch.tensor([1])
    with torch.inference_mode():
        expected = model(source_BS, input_BT, lang_B).decoded
        assert torch.allclose(fast(source_BS, input_BT, lang_B).decoded, expected, atol=1e-5)
        assert torch.allclose(half(source_BS, input_BT, lang_B).decoded.float(), expected, atol=0.2)


def test_models_in_double_precision_stay_plain() -> None:
    model = tiny_model([])
    assert isinstance(to_cpu_inference(model, torch.float64).encoder[0].ffn.inner, nn.Linear)


@int8
def test_8_bit_logits_are_close_and_independent_of_other_rows() -> None:
    torch.manual_seed(0)
    weight_VD, hidden_ND = torch.randn(300, 64), torch.randn(9, 64) * torch.logspace(-3, 3, 9)[:, None]
    weight_VD[7] = 0
    hidden_ND[0] = 0
    layer, exact_NV = Int8OutputLayer(weight_VD), hidden_ND @ weight_VD.T
    logits_NV = layer.logits(hidden_ND)
    assert bool(((logits_NV - exact_NV).std(dim=1) <= 0.02 * exact_NV.std(dim=1)).all())
    assert bool(logits_NV[0].eq(0).all())
    for row in range(9):
        assert torch.equal(layer.logits(hidden_ND[row : row + 1])[0], logits_NV[row])


def test_a_cpu_or_library_without_the_operators_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object) -> None:
        raise AttributeError("'_OpNamespace' 'mkldnn' object has no attribute '_linear_pointwise'")

    monkeypatch.setattr(BlockedLinear, "forward", missing)
    monkeypatch.setattr(Int8OutputLayer, "logits", missing)
    assert supports_blocked_weights.__wrapped__(torch.float32) is False
    assert supports_int8_output_layer.__wrapped__() is False
    monkeypatch.undo()
    assert supports_blocked_weights.__wrapped__(torch.float64) is False
    monkeypatch.setattr(cpu_inference, "cpu_has_int8_instructions", lambda: False)
    assert supports_int8_output_layer.__wrapped__() is False
    monkeypatch.setattr(devices.Path, "read_text", lambda _: "flags: avx2 avx512_vnni")
    assert devices._cpu_reports.__wrapped__("avx512_vnni|avx_vnni") is True
    assert devices._cpu_reports.__wrapped__("avx512_bf16") is False
