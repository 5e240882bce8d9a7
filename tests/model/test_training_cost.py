from __future__ import annotations

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from manyglot.batches.batch import SideTokenCounts
from manyglot.model.guidance.base import MethodSettings
from manyglot.model.packing import pack_batch
from manyglot.model.settings import ModelSettings
from manyglot.model.training_cost import min_num_weights, num_saved_activations, training_flops
from manyglot.model.transformer import Transformer
from manyglot.vocabulary.subword_model import PAD
from tests.conftest import packed_loss, random_batch, tiny_model
from tests.model.guidance.combinations import COMBINATIONS


def test_flops_match_the_flop_counter_of_torch() -> None:
    model = tiny_model().train()
    batch = random_batch(model)
    with FlopCounterMode(display=False) as counter:
        packed_loss(model, pack_batch(batch), 0.1).label_smoothed.backward()  # type: ignore[no-untyped-call]
    products = {str(operation): number for operation, number in counter.get_flop_counts()["Global"].items()}
    source = int((batch.source_BS != PAD).sum())
    estimated = training_flops(model.settings, model.embedding.num_embeddings, source, batch.num_target_tokens)
    assert estimated == products["aten.addmm"] + products["aten.mm"]


def test_the_estimated_weights_are_nearly_all_weights_of_a_model() -> None:
    settings = ModelSettings(width=64, ffn_width=128, num_heads=2, num_encoder_layers=3, num_decoder_layers=2)
    num_weights = sum(weight.numel() for weight in Transformer(settings, (), 100, 3).parameters())
    assert 0.95 * num_weights < min_num_weights(settings, 100) <= num_weights


def saved_and_estimated(model: Transformer) -> tuple[int, int]:
    """Return the number of values that PyTorch saves for the backward pass, and the estimate."""
    batch, saved = random_batch(model, size=300), {}
    weights = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if tensor.is_floating_point() and storage.data_ptr() not in weights:
            saved[storage.data_ptr()] = storage.nbytes() // tensor.itemsize
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        loss = packed_loss(model, pack_batch(batch), 0.1)
    assert loss.label_smoothed.requires_grad
    source, target = (
        SideTokenCounts(int((side != PAD).sum()), side.numel()) for side in (batch.source_BS, batch.input_BT)
    )
    return sum(saved.values()), num_saved_activations(model.settings, model.embedding.num_embeddings, source, target)


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("dropout", [0.0, 0.1])
def test_saved_activations_are_close_to_those_of_torch(norm: str, dropout: float) -> None:
    """The estimate omits small tensors, such as token positions, so it is slightly too low."""
    model = tiny_model(norm=norm).train()
    model.settings = model.settings.model_copy(update={"dropout": dropout})
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = dropout
    saved, estimated = saved_and_estimated(model)
    assert 0.9 * saved < estimated <= saved


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("settings", COMBINATIONS.values(), ids=COMBINATIONS)
def test_the_estimate_of_saved_activations_is_a_lower_bound(settings: list[MethodSettings], norm: str) -> None:
    saved, estimated = saved_and_estimated(tiny_model(settings, norm=norm).train())
    assert estimated <= saved
