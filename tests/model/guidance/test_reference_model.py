"""Every method and combination matches its equations: outputs and gradients, in training and in evaluation."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from manyglot.model.guidance import parse_method_settings
from manyglot.model.guidance.laa import LAA
from manyglot.model.guidance.language_matmul import gathered_matmul, grouped_matmul, language_matmul
from manyglot.vocabulary.subword_model import PAD
from tests.conftest import random_batch, tiny_model
from tests.model.guidance.combinations import COMBINATIONS
from tests.model.guidance.reference_model import ReferenceModel

RANDOM_LANG_B = torch.tensor([2, 0, 0, 1, 2, 1, 0])
LAA_PRODUCTS = {
    f"{product.__name__}, {' '.join(sites)}": (
        product,
        [parse_method_settings({"method": "laa", "init_gain": 1.0, "sites": sites})],
    )
    for product in (gathered_matmul, grouped_matmul)
    for sites in (["enc.self"], ["dec.self"], ["dec.cross"], ["enc.self", "dec.self", "dec.cross"])
}


class FixedDropout(nn.Dropout):
    """Drops by position in the sentence, so that a sentence has the same mask alone and in a batch."""

    def forward(self, x: Tensor) -> Tensor:
        if not self.training:
            return x
        rng = torch.Generator().manual_seed(7)
        kept_TD = torch.rand(20, x.shape[-1], generator=rng, dtype=x.dtype) >= self.p
        return x * kept_TD[: x.shape[-2]] / (1 - self.p)


@pytest.mark.parametrize("train", [False, True], ids=["eval", "train"])
@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("name", [*COMBINATIONS, *LAA_PRODUCTS])
def test_every_method_matches_its_equations(name: str, norm: str, train: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nn.Dropout, "forward", FixedDropout.forward)
    product, settings = LAA_PRODUCTS[name] if name in LAA_PRODUCTS else (language_matmul, COMBINATIONS[name])
    model = tiny_model(settings, norm=norm).train(train)
    for _, method in model.guidance.named_methods():
        if isinstance(method, LAA):
            method.matmul = product
    batch = random_batch(model, size=len(RANDOM_LANG_B))
    assert len(set(batch.lang_B.tolist())) > 1
    scored_BT = batch.label_BT != PAD
    hidden = model(batch.source_BS, batch.input_BT, batch.lang_B, random_lang_B=RANDOM_LANG_B)
    fast_NV = model.logits(hidden.decoded)[scored_BT]
    plain = []
    for row, (language, random_language) in enumerate(zip(batch.lang_B.tolist(), RANDOM_LANG_B.tolist(), strict=True)):
        source_S, input_T = (ids[row][ids[row] != PAD] for ids in (batch.source_BS, batch.input_BT))
        plain.append(
            ReferenceModel(model, language, random_language).logits(source_S, input_T)[scored_BT[row][: len(input_T)]]
        )
    plain_NV = torch.cat(plain)
    torch.testing.assert_close(fast_NV, plain_NV, rtol=1e-10, atol=1e-10)
    weight_NV = torch.randn_like(plain_NV)
    parameters = dict(model.named_parameters())
    fast, slow = (
        torch.autograd.grad((output * weight_NV).sum(), list(parameters.values()), allow_unused=True)
        for output in (fast_NV, plain_NV)
    )
    for parameter, mine, theirs in zip(parameters, fast, slow, strict=True):
        assert mine is not None, parameter
        assert theirs is not None, parameter
        torch.testing.assert_close(mine, theirs, rtol=1e-9, atol=1e-9, msg=lambda m, p=parameter: f"{p}: {m}")
