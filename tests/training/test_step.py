"""Padding, splitting and CUDA graphs do not change the losses and gradients of a step."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch import Tensor

from manyglot.batches.batch import collate
from manyglot.model.kernels.attention_tiles import LONG_TILE
from manyglot.model.packed_executor import packed_forward
from manyglot.model.packing import pack_batch, split_by_tile_fit
from manyglot.model.transformer import Transformer
from manyglot.training.contrastive_alignment import ContrastiveAlignmentSettings
from manyglot.training.step import CudaGraphStep, EagerStep
from tests.conftest import packed_loss, random_batch, tiny_model
from tests.model.guidance.combinations import COMBINATIONS, with_slow_low_rank


@pytest.mark.parametrize("name", with_slow_low_rank())
@pytest.mark.parametrize("multiple", [16, 64])
def test_padding_does_not_change_the_results(name: str, multiple: int) -> None:
    """Padding tokens affect neither the hidden states nor the gradients."""
    model = tiny_model(COMBINATIONS[name])
    batch = random_batch(model, size=9)
    results = []
    for filled in (pack_batch(batch), pack_batch(batch, multiple)):
        model.zero_grad()
        random_lang_B = torch.zeros_like(filled.lang_B)
        hidden_ND = packed_forward(model, filled, random_lang_B).decoded[:, 0][filled.label_N != 0]
        (hidden_ND * torch.arange(len(hidden_ND))[:, None].sin()).sum().backward()
        results.append((hidden_ND, {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}))
    assert len(filled.input.ids_N) % multiple == 0
    torch.testing.assert_close(results[0], results[1])


def test_padded_batches_of_similar_size_have_few_shapes() -> None:
    model = tiny_model(COMBINATIONS["token"])
    shapes = {pack_batch(random_batch(model, size=20, seed=seed), 128).shape for seed in range(8)}
    assert len(shapes) <= 3
    assert all(min(shape.lengths._replace(aligned_source_K=1)) > 0 for shape in shapes), "a kernel would be missing"


def gradients(model: Transformer) -> dict[str, Tensor]:
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("name", COMBINATIONS)
def test_fused_and_separate_gradient_additions_are_equal(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The part of a CUDA-graph step that needs no GPU."""
    model, device = tiny_model(COMBINATIONS[name]).eval(), torch.device("cpu")
    model.decoder[0].ffn.inner.weight.requires_grad = False
    batch, random_lang_B = random_batch(model, size=9), torch.zeros(9, dtype=torch.int64)
    monkeypatch.setattr(model, "forward", partial(type(model).forward, model, random_lang_B=random_lang_B))
    one_by_one = EagerStep(model, 0.1, device, "float32")
    one_by_one(*one_by_one.pack(batch), 0.5)
    expected = gradients(model)
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    at_once = CudaGraphStep(model, 0.1, device, "float32")
    EagerStep.__call__(at_once, *one_by_one.pack(batch), 0.5)
    torch.testing.assert_close({n: g - 1 for n, g in gradients(model).items() if n in expected}, expected)


def test_splitting_off_long_sentences_keeps_the_gradients() -> None:
    model = tiny_model(COMBINATIONS["laa"]).eval()
    words = [[[5 + n % 7] * n for n in lengths] for lengths in ([3, LONG_TILE + 20, 9, 5], [8, 4, LONG_TILE + 5, 6])]
    batch = collate(words[0], words[1], [2, 1, 0, 1], model.tags_by_language())
    parts = split_by_tile_fit(batch)
    assert [len(part) for part in parts] == [2, 2]
    assert len(split_by_tile_fit(parts[0])) == 1
    step, results = EagerStep(model, 0.1, torch.device("cpu"), "float32"), []
    for packed in ([pack_batch(batch)], [pack_batch(part) for part in parts]):
        model.zero_grad()
        results.append((sum(step(part, 0.5) for part in packed), gradients(model)))
    torch.testing.assert_close(results[0], results[1])


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize("name", COMBINATIONS)
@pytest.mark.parametrize("alignment", [None, ContrastiveAlignmentSettings(every_nth_pair=2)])
def test_cuda_graph_and_eager_steps_are_equal(name: str, alignment: ContrastiveAlignmentSettings | None) -> None:
    device = torch.device("cuda")
    model = tiny_model(COMBINATIONS[name]).float().to(device)
    if alignment is not None and model.guidance.affects_encoder:
        pytest.skip("the encoder knows the target language")
    plain, recorded = (kind(model, 0.1, device, "auto", alignment) for kind in (EagerStep, CudaGraphStep))
    for seed in range(4):
        batch = random_batch(model, size=20, seed=seed)
        results = []
        for step in (plain, recorded):
            model.zero_grad(set_to_none=False)
            torch.manual_seed(seed)
            results.append((sum(step(part, 0.5) for part in step.pack(batch)), gradients(model)))
        torch.testing.assert_close(results[0], results[1], rtol=0.03, atol=0.03)
    assert recorded.graphs


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_cuda_graphs_share_their_memory() -> None:
    """Batches of many shapes need about as much memory as one. A larger batch evicts the other graphs."""
    device = torch.device("cuda")
    model = tiny_model(COMBINATIONS["laa"]).float().to(device)
    step = CudaGraphStep(model, 0.1, device, "auto")
    reserved = []
    for size in range(9000, 8000, -100):
        for _ in range(2):
            step(*step.pack(random_batch(model, size=size)), 1.0)
        reserved.append(torch.cuda.memory_reserved(device))
    assert len(step.graphs) > 5
    assert reserved[-1] < 1.5 * reserved[0]
    for _ in range(2):
        step(*step.pack(random_batch(model, size=12000)), 1.0)
    assert len(step.graphs) == 1
    assert torch.cuda.memory_reserved(device) < 2 * reserved[0]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_dropout_in_a_cuda_graph_follows_the_seed() -> None:
    device = torch.device("cuda")
    model = tiny_model(COMBINATIONS["token"]).float().to(device).train()
    step = CudaGraphStep(model, 0.1, device, "auto")
    (packed,) = step.pack(random_batch(model, size=20))
    step(packed, 1.0)
    losses = []
    for seed in (1, 2, 1):
        torch.manual_seed(seed)
        losses.append(step(packed, 1.0).tolist())
    assert losses[0] == pytest.approx(losses[2])
    assert losses[0] != pytest.approx(losses[1])
    with torch.no_grad():
        model.eval()
        assert losses[0][0] != pytest.approx(float(packed_loss(model, packed.to(device), 0.1).label_smoothed))
