from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from manyglot.model import cross_entropy
from manyglot.model.guidance import parse_method_settings
from manyglot.model.packing import pack_batch
from manyglot.vocabulary.subword_model import PAD
from tests.conftest import packed_loss, random_batch, tiny_model


def test_chunks_are_summed_in_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many chunks give the same gradients as one, also in half precision."""
    torch.manual_seed(0)
    hidden, weight = (torch.randn(n, 32).bfloat16().requires_grad_() for n in (4096, 50))
    label, gradients = torch.randint(1, 50, (4096,)), []
    for chunk in (4096, 16):
        monkeypatch.setattr(cross_entropy, "LOGITS_CHUNK_TOKENS", chunk)
        loss, _ = cross_entropy.ChunkedLinearCrossEntropy.apply(hidden, weight, label, 0.1, PAD)
        gradients.append(torch.autograd.grad(loss / 4096, (hidden, weight)))
    for one, many in zip(*gradients, strict=True):
        assert one.dtype == many.dtype == torch.bfloat16
        torch.testing.assert_close(one, many, rtol=0.01, atol=0.01 * float(one.abs().max()))


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("chunk", [512, 7])
def test_the_loss_equals_torch_cross_entropy(smoothing: float, chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cross_entropy, "LOGITS_CHUNK_TOKENS", chunk)
    model = tiny_model([parse_method_settings({"method": "token", "side": "target", "mode": "clean"})])
    batch = random_batch(model)
    ours = packed_loss(model, pack_batch(batch), smoothing)
    logits = model.logits(model(batch.source_BS, batch.input_BT, batch.lang_B).decoded)
    plain = F.cross_entropy(
        logits.flatten(0, 1), batch.label_BT.flatten(), ignore_index=PAD, label_smoothing=smoothing, reduction="sum"
    )
    torch.testing.assert_close(ours.label_smoothed, plain)
    parameters = list(model.parameters())
    for a, b in zip(
        torch.autograd.grad(ours.label_smoothed, parameters), torch.autograd.grad(plain, parameters), strict=True
    ):
        torch.testing.assert_close(a, b)
    if smoothing == 0:
        torch.testing.assert_close(ours.label_smoothed, ours.nll_L.sum())
