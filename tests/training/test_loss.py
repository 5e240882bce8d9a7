from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from manyglot.batches.packing import pack
from manyglot.model import cross_entropy
from manyglot.model.guidance import read_method
from manyglot.training.loss import batch_loss
from manyglot.training.schedule import inverse_square_root
from manyglot.vocabulary.subwords import PAD
from tests.conftest import random_batch, tiny_model


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("chunk", [512, 7])
def test_it_is_torch_s_cross_entropy_with_its_gradients(
    smoothing: float, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cross_entropy, "CHUNK", chunk)
    model = tiny_model([read_method({"method": "token", "side": "target", "mode": "clean"})])
    batch = random_batch(model)
    ours = batch_loss(model, pack(batch), smoothing)
    logits = model(batch.source_BS, batch.input_BT, batch.lang_B)
    plain = F.cross_entropy(
        logits.flatten(0, 1), batch.label_BT.flatten(), ignore_index=PAD, label_smoothing=smoothing, reduction="sum"
    )
    torch.testing.assert_close(ours.smoothed, plain)
    parameters = list(model.parameters())
    for a, b in zip(
        torch.autograd.grad(ours.smoothed, parameters), torch.autograd.grad(plain, parameters), strict=True
    ):
        torch.testing.assert_close(a, b)
    if smoothing == 0:
        torch.testing.assert_close(ours.smoothed, ours.nll_L.sum())


@given(st.integers(1, 5000), st.integers(0, 5000))
def test_the_learning_rate_rises_to_its_peak_and_falls(step: int, warmup: int) -> None:
    now, then = (inverse_square_root(s, peak=5e-4, warmup_steps=warmup) for s in (step, step + 1))
    assert 0 < now <= 5e-4
    assert now < then if step < warmup else now > then


def test_the_paper_s_learning_rate() -> None:
    rates = [inverse_square_root(step, 5e-4, 4000) for step in (2000, 4000, 16000)]
    assert rates == pytest.approx([2.5e-4, 5e-4, 2.5e-4], rel=1e-3)
