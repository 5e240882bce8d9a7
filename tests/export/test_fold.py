"""A folded model is the guided one for its language, with nothing of guidance left."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import pytest
import torch
from torch import Tensor

from manyglot.export.fold import FoldingError, fold
from manyglot.model import guidance
from manyglot.model.guidance import METHODS, read_method
from manyglot.model.guidance.base import Dimensions, Method, MethodSettings, Point, Target
from tests.conftest import NUM_LANGUAGES, random_batch, tiny_model
from tests.model.guidance.combinations import COMBINATIONS
from tests.model.guidance.everywhere import Everywhere, EverywhereSettings

REASONS = {"token": "symbol in the sequence", "random_laa": "at random", "adapter": "between two sub-layers"}
FOLDABLE = {
    name: methods for name, methods in COMBINATIONS.items() if not any(each.method in REASONS for each in methods)
} | {
    "LALT + LEE": [read_method({"method": "lalt"}), read_method({"method": "lee", "sites": [5, 6]})],
    "LEE + LALT": [read_method({"method": "lee", "sites": [1, 2, 3, 6]}), read_method({"method": "lalt"})],
    "LALN + LEE + LAA": [
        read_method({"method": "laln"}),
        read_method({"method": "lee", "sites": [1, 2, 3, 4, 5, 6]}),
        read_method({"method": "laa", "sites": ["enc.self", "dec.self", "dec.cross"]}),
    ],
}


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("name", FOLDABLE)
def test_a_folded_model_is_the_guided_one(name: str, norm: str) -> None:
    model = tiny_model(FOLDABLE[name], norm=norm)
    batch = random_batch(model, size=6)
    for language in range(NUM_LANGUAGES):
        plain = fold(model, language)
        assert not list(plain.guidance.items())
        assert not [name for name in plain.state_dict() if name.startswith("guidance")]
        lang_B = torch.full_like(batch.lang_B, language)
        expected = model(batch.source_BS, batch.input_BT, lang_B)
        torch.testing.assert_close(
            plain(batch.source_BS, batch.input_BT, torch.zeros_like(lang_B)), expected, rtol=1e-10, atol=1e-10
        )


def test_the_guided_model_stays_as_it_was() -> None:
    model = tiny_model(COMBINATIONS["laa"])
    before = {name: value.clone() for name, value in model.state_dict().items()}
    fold(model, 1)
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name])


def test_a_float32_model_is_folded_in_float32() -> None:
    model = tiny_model(COMBINATIONS["LAA_dec.self,cros + LEE_4,5"]).float()
    batch = random_batch(model)
    plain = fold(model, 2)
    assert {p.dtype for p in plain.parameters()} == {torch.float32}
    lang_B = torch.full_like(batch.lang_B, 2)
    got, expected = (each(batch.source_BS, batch.input_BT, lang_B) for each in (plain, model))
    torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("name", [name for name in COMBINATIONS if name not in FOLDABLE])
def test_what_cannot_be_folded_says_so(name: str, norm: str) -> None:
    culprits = [each.method for each in COMBINATIONS[name] if each.method in REASONS]
    with pytest.raises(FoldingError) as caught:
        fold(tiny_model(COMBINATIONS[name], norm=norm), 0)
    assert any(f"{each} cannot be folded" in str(caught.value) for each in culprits)
    assert any(REASONS[each] in str(caught.value) for each in culprits)


class NewSettings(MethodSettings):
    method: Literal["new"] = "new"


class New(Method):
    """Not affine."""

    settings_type: ClassVar = NewSettings

    def __init__(self, settings: Any, dimensions: Dimensions) -> None:
        super().__init__(settings, dimensions)

    def project(self, point: Point, x_BTD: Tensor, target: Target) -> Tensor | None:
        return x_BTD.relu()


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_a_new_method_folds_by_its_hooks_alone(norm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guidance, "METHODS", (*METHODS, Everywhere, New))
    monkeypatch.setattr(Everywhere, "tag", Method.tag)
    model = tiny_model([EverywhereSettings(), read_method({"method": "laln"})], norm=norm)
    batch = random_batch(model)
    lang_B = torch.full_like(batch.lang_B, 1)
    folded = fold(model, 1)(batch.source_BS, batch.input_BT, lang_B)
    torch.testing.assert_close(folded, model(batch.source_BS, batch.input_BT, lang_B), rtol=1e-10, atol=1e-10)
    with pytest.raises(FoldingError, match="new cannot be folded: it is not an affine function"):
        fold(tiny_model([NewSettings(), *COMBINATIONS["lee"]]), 0)
