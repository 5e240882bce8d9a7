"""The initialization of the methods' parameters, and their accuracy in half precision."""

from __future__ import annotations

import pytest
import torch

from manyglot.model.guidance import build_guidance, parse_method_settings
from manyglot.model.guidance.base import MethodSettings, ModelDimensions
from tests.conftest import random_batch, tiny_model
from tests.model.guidance.combinations import COMBINATIONS

BASE = ModelDimensions(width=64, num_encoder_layers=6, num_decoder_layers=6, num_languages=5, first_tag_id=100)


def initial_parameters(**values: object) -> dict[str, torch.Tensor]:
    return {
        name.rpartition(".")[2]: p
        for name, p in build_guidance([parse_method_settings(values)], BASE).named_parameters()
    }


@pytest.mark.parametrize(
    "values",
    [{"method": "laa", "init_gain": 1.0}, {"method": "random_laa", "init_gain": 1.0}, {"method": "lalt"}],
    ids=str,
)
def test_matrices_are_initialized_like_linear_layers(values: dict[str, object]) -> None:
    """Xavier uniform: values within sqrt(6 / 2D), different for each language."""
    matrix_LDD = initial_parameters(**values)["matrix_LDD"]
    bound = (6 / 128) ** 0.5
    assert matrix_LDD.shape == (5, 64, 64)
    for matrix_DD in matrix_LDD.detach():
        assert 0.99 * bound < matrix_DD.abs().max() <= bound
        assert matrix_DD.std() == pytest.approx(bound / 3**0.5, rel=0.05)
    assert not torch.equal(matrix_LDD[0], matrix_LDD[1])


def test_init_gain_scales_the_matrices() -> None:
    assert initial_parameters(method="laa", init_gain=0.1)["matrix_LDD"].abs().max() <= 0.1 * (6 / 128) ** 0.5


@pytest.mark.parametrize(
    "values",
    [
        {"method": "adapter"},
        {"method": "lalt", "residual": True},
        {"method": "laln"},
        {"method": "laa", "init_gain": 0},
    ],
    ids=str,
)
def test_residual_methods_start_at_zero(values: dict[str, object]) -> None:
    assert not any(parameter.any() for parameter in initial_parameters(**values).values())


@pytest.mark.parametrize("name", COMBINATIONS)
def test_half_precision_is_close(name: str) -> None:
    settings: list[MethodSettings] = COMBINATIONS[name]
    model = tiny_model(settings).float()
    batch = random_batch(model)
    random_lang_B = batch.lang_B.flip(0)
    expected = model(batch.source_BS, batch.input_BT, batch.lang_B, random_lang_B=random_lang_B).decoded
    with torch.autocast("cpu", torch.bfloat16):
        got = model(batch.source_BS, batch.input_BT, batch.lang_B, random_lang_B=random_lang_B).decoded
    got.float().square().sum().backward()
    assert all(p.grad.isfinite().all() for p in model.parameters() if p.grad is not None)
    error = (got.float() - expected).norm() / expected.norm()
    assert 0 < error < 0.05, "half precision is used and accurate"
