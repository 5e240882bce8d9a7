"""Matrices of low rank compute the same as full matrices that are equal to their products, without computing these."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from manyglot.config.base_settings import parse_settings
from manyglot.config.experiment import Experiment
from manyglot.errors import SettingsError
from manyglot.model.guidance import language_matmul, parse_method_settings
from manyglot.model.guidance.base import MethodSettings
from manyglot.model.guidance.language_matmul import pad_rank
from manyglot.model.guidance.language_matrices import LanguageMatrixMethod
from manyglot.model.packed_executor import packed_forward
from manyglot.model.packing import pack_batch
from manyglot.model.settings import ModelSettings
from manyglot.model.transformer import Transformer
from manyglot.vocabulary.subword_model import PAD
from tests.conftest import NUM_LANGUAGES, NUM_SUBWORDS, random_batch, tiny_model
from tests.model.guidance.combinations import LOW_RANK

ATTENTIONS = ["enc.self", "dec.self", "dec.cross"]
TESTED: dict[str, list[dict[str, Any]]] = {
    **LOW_RANK,
    "rank 1": [{"method": "adapter", "rank": 1}],
    "random_laa": [{"method": "random_laa", "rank": 3, "sites": ATTENTIONS}, {"method": "token"}],
}


def parse(methods: list[dict[str, Any]]) -> list[MethodSettings]:
    return [parse_method_settings(each) for each in methods]


def ranked_methods(model: Transformer) -> Iterator[tuple[str, LanguageMatrixMethod]]:
    for name, method in model.guidance.named_methods():
        if isinstance(method, LanguageMatrixMethod):
            yield name, method


def with_full_matrices(model: Transformer, methods: list[dict[str, Any]]) -> Transformer:
    """Return a model of the same weights, in which each matrix of low rank is a full matrix."""
    full = tiny_model(parse([{**each, "rank": None} if "rank" in each else each for each in methods]))
    weights = dict(model.state_dict())
    for name, method in ranked_methods(model):
        left_LDR, right_LDR = (weights.pop(f"guidance.methods.{name}.{side}_LDR") for side in ("left", "right"))
        assert (method.left_LDR.shape, method.right_LDR.shape) == (left_LDR.shape, right_LDR.shape)
        weights[f"guidance.methods.{name}.matrix_LDD"] = torch.einsum("ldr,ler->lde", left_LDR, right_LDR)
    full.load_state_dict(weights)
    return full.train(model.training)


@pytest.mark.parametrize("train", [False, True], ids=["eval", "train"])
@pytest.mark.parametrize("packed", [False, True], ids=["padded", "packed"])
@pytest.mark.parametrize("name", TESTED)
def test_outputs_and_gradients_equal_those_of_full_matrices(name: str, packed: bool, train: bool) -> None:
    low = tiny_model(parse(TESTED[name])).train(train)
    full, results = with_full_matrices(low, TESTED[name]), []
    for model in (low, full):
        batch = random_batch(model, size=7)
        random_lang_B = batch.lang_B.flip(0)
        torch.manual_seed(0)
        if packed:
            hidden_ND = packed_forward(model, pack_batch(batch), random_lang_B).decoded[:, 0]
        else:
            hidden_BTD = model(batch.source_BS, batch.input_BT, batch.lang_B, random_lang_B=random_lang_B).decoded
            hidden_ND = hidden_BTD[batch.label_BT != PAD]
        (hidden_ND * torch.arange(len(hidden_ND))[:, None].sin()).sum().backward()
        results.append(hidden_ND)
    torch.testing.assert_close(*results, rtol=1e-10, atol=1e-10)
    parameters = dict(full.named_parameters())
    for parameter, value in low.named_parameters():
        if not parameter.endswith("_LDR"):
            torch.testing.assert_close(value.grad, parameters[parameter].grad, rtol=1e-9, atol=1e-9)
    for method_name, method in ranked_methods(low):
        gradient_LDD = parameters[f"guidance.methods.{method_name}.matrix_LDD"].grad
        assert gradient_LDD is not None
        left_LDR, right_LDR = method.left_LDR, method.right_LDR
        torch.testing.assert_close(left_LDR.grad, gradient_LDD @ right_LDR, rtol=1e-9, atol=1e-9)
        torch.testing.assert_close(right_LDR.grad, gradient_LDD.mT @ left_LDR, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(low.language_representations(), full.language_representations())


@pytest.mark.parametrize("name", LOW_RANK)
def test_matrices_start_at_exactly_zero_and_can_learn(name: str) -> None:
    torch.manual_seed(0)
    sizes = ModelSettings(width=16, ffn_width=32, num_heads=4, num_encoder_layers=1, num_decoder_layers=1)
    model = Transformer(sizes, parse(LOW_RANK[name]), NUM_SUBWORDS, NUM_LANGUAGES).eval()
    plain = Transformer(sizes, (), NUM_SUBWORDS, NUM_LANGUAGES).eval()
    plain.load_state_dict({k: v for k, v in model.state_dict().items() if not k.startswith("guidance.")})
    batch = random_batch(model, size=9)
    inputs = batch.source_BS, batch.input_BT, batch.lang_B
    assert torch.equal(model(*inputs).decoded, plain(*inputs).decoded)
    for _, method in ranked_methods(model):
        assert not torch.equal(method.right_LDR[0], method.right_LDR[1])
        method.reset_to_identity()
    factors = list(model.guidance.parameters())
    for has_gradient in (lambda name: name.endswith("left_LDR"), lambda name: True):
        gradients = torch.autograd.grad(model(*inputs).decoded[:, :, 0].sum(), factors)
        for (parameter, value), gradient in zip(model.guidance.named_parameters(), gradients, strict=True):
            assert bool(gradient.any()) == has_gradient(parameter)
            value.data -= gradient


class LargestTensor(TorchDispatchMode):
    """Records the number of values of the largest tensor that an operation returns."""

    num_values = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        sizes = [each.numel() for each in tree_leaves(result) if isinstance(each, Tensor)]
        self.num_values = max([self.num_values, *sizes])
        return result


@pytest.mark.parametrize("name", LOW_RANK)
def test_training_computes_no_matrix_of_all_languages(name: str) -> None:
    num_languages = 100
    torch.manual_seed(0)
    sizes = ModelSettings(width=16, ffn_width=32, num_heads=4, num_encoder_layers=1, num_decoder_layers=1)
    model = Transformer(sizes, parse(LOW_RANK[name]), NUM_SUBWORDS, num_languages)
    batch = pack_batch(random_batch(model, size=7))
    with LargestTensor() as largest:
        packed_forward(model, batch).decoded.square().sum().backward()
    factors = {parameter.numel() for parameter in model.guidance.parameters()}
    assert max(factors) <= largest.num_values < num_languages * 16 * 8
    counts = model.num_parameters_by_part()
    for method in LOW_RANK[name]:
        assert counts[f"guidance.{method['method']}"] == 2 * num_languages * 16 * method["rank"]


@pytest.mark.parametrize("length", [1, 3], ids=["packed", "padded"])
@pytest.mark.parametrize("rank", [3, 8])
@pytest.mark.parametrize("transposed", [False, True])
def test_one_kernel_multiplies_by_a_factor_of_any_rank(
    transposed: bool, rank: int, length: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a GPU in half precision, where the rank is padded; copies of factors for each row would take too long."""

    def refuse(*_: Any) -> None:
        raise AssertionError("the factors were copied")

    half = torch.bfloat16
    monkeypatch.setattr(language_matmul, "_has_grouped_kernel", lambda device, dtype: dtype == half)
    monkeypatch.setattr(language_matmul, "_matmul_per_language", refuse)
    monkeypatch.setattr(language_matmul, "gathered_matmul", refuse)
    model = tiny_model(parse([{"method": "laa", "rank": rank, "sites": ATTENTIONS}])).to(half)
    ((_, laa),) = ranked_methods(model)
    lang_B = torch.tensor([2, 0, 1, 0, 2, 2, 0])
    target_languages = model.prepare_target_languages(lang_B)
    x_BTD = torch.randn(len(lang_B), length, 16, dtype=half, requires_grad=True)
    got = sum(laa.matmul_language(n * x_BTD, target_languages, transposed=transposed) for n in (1, 2))  # two layers
    matrix_LDD = laa.left_LDR.float() @ laa.right_LDR.float().mT
    expected = 3 * x_BTD.float() @ (matrix_LDD.mT if transposed else matrix_LDD)[lang_B]
    weight, inputs = torch.randn_like(expected), (x_BTD, laa.left_LDR, laa.right_LDR)
    assert isinstance(got, Tensor)
    for mine, theirs in zip(
        (got, *torch.autograd.grad((got * weight).sum(), inputs)),
        (expected, *torch.autograd.grad((expected * weight).sum(), inputs)),
        strict=True,
    ):
        torch.testing.assert_close(
            mine.float(), theirs.float(), rtol=0.03, atol=0.03 * float(theirs.detach().abs().max())
        )


def test_a_rank_is_padded_only_for_a_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    factor_LDR = torch.randn(2, 16, 3)
    assert pad_rank(factor_LDR) is factor_LDR
    monkeypatch.setattr(language_matmul, "_has_grouped_kernel", lambda device, dtype: True)
    assert pad_rank(factor_LDR).shape == (2, 16, 8)
    assert pad_rank(aligned_LDR := torch.randn(2, 16, 8)) is aligned_LDR


def test_factors_are_cast_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """All layers of a step share the padded factors, and so the accumulator of their gradients."""
    monkeypatch.setattr(language_matmul, "_has_grouped_kernel", lambda device, dtype: True)
    model = tiny_model(parse([{"method": "adapter", "rank": 3}]))
    ((_, adapter),) = ranked_methods(model)
    target_languages = model.prepare_target_languages(torch.tensor([0, 1]))
    x_BTD = torch.randn(2, 1, 16, dtype=torch.float64)
    first, second = (target_languages.cast_factor(adapter.left_LDR, x_BTD) for _ in range(2))
    assert first is second


@pytest.mark.parametrize("rank", [16, 40])
def test_the_rank_is_less_than_the_width(rank: int) -> None:
    message = rf"guidance\.adapter\.rank should be less than model\.width \(16\), got {rank}: a full matrix is smaller"
    with pytest.raises(SettingsError, match=message):
        tiny_model(parse([{"method": "adapter", "rank": rank}]))
    values = {
        "data": "data",
        "run": "run",
        "corpus": {"kind": "synthetic"},
        "model": {"width": 16, "num_heads": 2},
        "guidance": [{"method": "adapter", "rank": rank}],
    }
    with pytest.raises(SettingsError, match=message):
        parse_settings(Experiment, values)
    assert parse_settings(Experiment, values | {"init": {"model": "wider"}}).guidance[0].method == "adapter"


def test_modules_of_full_matrices_have_no_factors() -> None:
    model = tiny_model(parse([{"method": "laa"}, {"method": "adapter"}, {"method": "lalt"}]))
    names = {name.rpartition(".")[2] for name, _ in model.guidance.named_parameters()}
    assert names == {"matrix_LDD"}
    assert all(isinstance(method.matrix_LDD, nn.Parameter) for _, method in ranked_methods(model))
