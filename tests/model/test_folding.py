"""A folded model computes the same as the guided one for its language, without guidance."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import pytest
import torch
from torch import Tensor

from manyglot.errors import LanguageError
from manyglot.model import guidance
from manyglot.model.folding import FoldingError, fold_guidance, try_fold_guidance, uses_only_tags
from manyglot.model.guidance import METHODS, parse_method_settings
from manyglot.model.guidance.base import GuidanceMethod, HookPoint, MethodSettings, ModelDimensions, TargetLanguages
from tests.conftest import NUM_LANGUAGES, random_batch, tiny_model
from tests.model.guidance.combinations import COMBINATIONS
from tests.model.guidance.everywhere import Everywhere, EverywhereSettings

REASONS = {"token": "part of the sequence", "random_laa": "a random language", "adapter": "between two sub-layers"}


def unfoldable_methods(settings: list[MethodSettings]) -> set[str]:
    """The methods that cannot be folded; an adapter before the residual can."""
    foldable = {each.method for each in settings if getattr(each, "placement", None) == "before_residual"}
    return {each.method for each in settings if each.method in REASONS} - foldable


MORE = {
    "LALT + LEE": [
        parse_method_settings({"method": "lalt"}),
        parse_method_settings({"method": "lee", "sites": [5, 6]}),
    ],
    "LEE + LALT": [
        parse_method_settings({"method": "lee", "sites": [1, 2, 3, 6]}),
        parse_method_settings({"method": "lalt"}),
    ],
    "LALN + LEE + LAA": [
        parse_method_settings({"method": "laln"}),
        parse_method_settings({"method": "lee", "sites": [1, 2, 3, 4, 5, 6]}),
        parse_method_settings({"method": "laa", "init_gain": 1.0, "sites": ["enc.self", "dec.self", "dec.cross"]}),
    ],
}
TESTED = COMBINATIONS | MORE
OURS = {"token", "lee", "laa", "adapter", "laln", "lalt", "random_laa"}


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("name", TESTED)
def test_a_folded_model_matches_the_guided_one_or_the_error_says_why(name: str, norm: str) -> None:
    methods = {each.method for each in TESTED[name]}
    model = tiny_model(TESTED[name], norm=norm)
    unfoldable = unfoldable_methods(TESTED[name])
    if unfoldable:
        with pytest.raises(FoldingError) as caught:
            fold_guidance(model, 0)
        assert any(f"{each} cannot be folded" in str(caught.value) for each in unfoldable)
        assert any(REASONS[each] in str(caught.value) for each in unfoldable)
        return
    if not methods <= OURS:  # a new method may or may not fold; if it does, then right
        try:
            fold_guidance(model, 0)
        except FoldingError:
            return
    batch = random_batch(model, size=6)
    for language in range(NUM_LANGUAGES):
        plain = fold_guidance(model, language)
        assert not list(plain.guidance.named_methods())
        assert not [name for name in plain.state_dict() if name.startswith("guidance")]
        lang_B = torch.full_like(batch.lang_B, language)
        expected = model(batch.source_BS, batch.input_BT, lang_B).decoded
        got = plain(batch.source_BS, batch.input_BT, torch.zeros_like(lang_B)).decoded
        torch.testing.assert_close(got, expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", ["token", "Token_tgt", "LAA + Token_tgt"])
def test_keep_tags_folds_everything_else(name: str) -> None:
    model = tiny_model(COMBINATIONS[name])
    batch = random_batch(model, size=6)
    for language in range(NUM_LANGUAGES):
        lang_B = torch.full_like(batch.lang_B, language)
        plain = fold_guidance(model, language, keep_tags=True)
        expected = model(batch.source_BS, batch.input_BT, lang_B).decoded
        got = plain(batch.source_BS, batch.input_BT, torch.zeros_like(lang_B)).decoded
        torch.testing.assert_close(got, expected, rtol=1e-10, atol=1e-10)


def test_uses_only_tags() -> None:
    alone = {name for name, methods in COMBINATIONS.items() if {each.method for each in methods} == {"token"}}
    assert {name for name in COMBINATIONS if uses_only_tags(tiny_model(COMBINATIONS[name]))} == alone


def test_folding_does_not_change_the_guided_model() -> None:
    model = tiny_model(COMBINATIONS["laa"])
    before = {name: value.clone() for name, value in model.state_dict().items()}
    fold_guidance(model, 1)
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name])


def test_a_float32_model_is_folded_in_float32() -> None:
    model = tiny_model(COMBINATIONS["LAA_dec.self,cros + LEE_4,5"]).float()
    batch = random_batch(model)
    plain = fold_guidance(model, 2)
    assert {p.dtype for p in plain.parameters()} == {torch.float32}
    lang_B = torch.full_like(batch.lang_B, 2)
    got, expected = (each(batch.source_BS, batch.input_BT, lang_B) for each in (plain, model))
    torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-4)


def test_an_unknown_language_is_refused() -> None:
    model = tiny_model(COMBINATIONS["laa"])
    for wrong in ("de", 3, -1, None):
        with pytest.raises(LanguageError, match="one of the model's 3 languages"):
            fold_guidance(model, wrong)  # type: ignore[arg-type]


class NewSettings(MethodSettings):
    method: Literal["new"] = "new"


class New(GuidanceMethod):
    """A hook that is not affine."""

    settings_type: ClassVar = NewSettings

    def __init__(self, settings: Any, dimensions: ModelDimensions) -> None:
        super().__init__(settings, dimensions)

    def qkv_term(self, point: HookPoint, x_BTD: Tensor, target_languages: TargetLanguages) -> Tensor | None:
        return (x_BTD + 2).relu()


class Mixing(New):
    """A hook that mixes positions."""

    def qkv_term(self, point: HookPoint, x_BTD: Tensor, target_languages: TargetLanguages) -> Tensor | None:
        return x_BTD.mean(dim=1, keepdim=True).expand_as(x_BTD)


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_a_new_method_folds_without_code_of_its_own(norm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guidance, "METHODS", (*METHODS, Everywhere, New))
    monkeypatch.setattr(Everywhere, "tags_for_language", GuidanceMethod.tags_for_language)
    model = tiny_model([EverywhereSettings(), parse_method_settings({"method": "laln"})], norm=norm)
    batch = random_batch(model)
    lang_B = torch.full_like(batch.lang_B, 1)
    folded = fold_guidance(model, 1)(batch.source_BS, batch.input_BT, lang_B).decoded
    expected = model(batch.source_BS, batch.input_BT, lang_B).decoded
    torch.testing.assert_close(folded, expected, rtol=1e-10, atol=1e-10)
    with pytest.raises(FoldingError, match="new cannot be folded: it is not an affine function"):
        fold_guidance(tiny_model([NewSettings(), *COMBINATIONS["lee"]], norm=norm), 0)
    monkeypatch.setattr(guidance, "METHODS", (*METHODS, Mixing))
    with pytest.raises(FoldingError, match="cannot be folded"):
        fold_guidance(tiny_model([NewSettings()], norm=norm), 0)


def test_folding_keeps_training_mode() -> None:
    model = tiny_model(COMBINATIONS["laa"])
    expected = fold_guidance(model, 1)
    with torch.autocast("cpu", torch.bfloat16):
        got = fold_guidance(model.train(), 1)
    assert got.training
    assert not expected.training
    for name, value in got.state_dict().items():
        assert torch.equal(value, expected.state_dict()[name])


def test_try_fold_guidance_returns_none_if_folding_is_impossible() -> None:
    assert try_fold_guidance(tiny_model([parse_method_settings({"method": "token"})]), 0) is None
    adapter = parse_method_settings({"method": "adapter", "placement": "after_residual"})
    assert try_fold_guidance(tiny_model([adapter]), 0) is None
    folded = try_fold_guidance(
        tiny_model(
            [parse_method_settings({"method": "laa", "init_gain": 1.0}), parse_method_settings({"method": "token"})]
        ),
        0,
    )
    assert folded is not None
    assert not list(folded.guidance.named_methods())
