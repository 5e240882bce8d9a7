from __future__ import annotations

import math

import pytest
import torch

from manyglot.model.padded_executor import PaddedEncoderExecutor
from manyglot.model.settings import ModelSettings
from manyglot.model.sublayer_io import SublayerInput, SublayerOutput
from manyglot.model.transformer import Transformer
from tests.conftest import random_batch, tiny_model


def count(num_languages: int, **sizes: int) -> float:
    with torch.device("meta"):
        model = Transformer(ModelSettings(**sizes), [], 64_000, num_languages)  # type: ignore[arg-type]
    return sum(model.num_parameters_by_part().values()) / 1e6


def test_parameter_counts_match_the_paper() -> None:
    assert count(59) == pytest.approx(76.9, abs=0.05)
    assert count(100) == pytest.approx(76.96, abs=0.05)
    assert count(100, num_encoder_layers=24, num_decoder_layers=24) == pytest.approx(209.4, abs=0.05)


def test_the_parts_sum_to_all_parameters() -> None:
    model = tiny_model()
    assert sum(model.num_parameters_by_part().values()) == sum(p.numel() for p in model.parameters())
    assert set(model.num_parameters_by_part()) == {"embedding", "encoder_norm", "decoder_norm", "encoder", "decoder"}


def test_the_embedding_matches_the_paper() -> None:
    """x = LN(sqrt(D) E[token] + position), with sines and cosines of the position."""
    model = tiny_model()
    ids = torch.tensor([[5, 9]])
    position = torch.tensor(
        [
            [math.sin(p / 10_000 ** (i / 7)) for i in range(8)] + [math.cos(p / 10_000 ** (i / 7)) for i in range(8)]
            for p in (0, 1)
        ],
        dtype=torch.float64,
    )
    expected = model.encoder_norm(4 * model.embedding(ids) + position)
    executor = PaddedEncoderExecutor(model.guidance, model.prepare_target_languages(torch.tensor([0])), None)
    torch.testing.assert_close(executor.embed(ids, model.encoder_embedding), expected)


def test_encoder_decoder_and_output_share_one_table() -> None:
    model = tiny_model()
    assert [name for name, p in model.named_parameters() if p.shape[0] == len(model.embedding.weight)] == [
        "embedding.weight"
    ]
    hidden = torch.randn(2, 16, dtype=torch.float64)
    torch.testing.assert_close(model.logits(hidden), hidden @ model.embedding.weight.T)


def test_post_and_pre_norm_match_their_definitions() -> None:
    for norm in ("post", "pre"):
        sublayer = tiny_model(norm=norm).encoder[0].ffn_sublayer  # type: ignore[union-attr, index]
        model = tiny_model(norm=norm)
        x = torch.randn(1, 2, 16, dtype=torch.float64)
        executor = PaddedEncoderExecutor(model.guidance, model.prepare_target_languages(torch.tensor([0])), None)
        got = sublayer(SublayerInput.from_states(x), lambda y, _: SublayerOutput(2 * y.states), executor)
        expected = sublayer.norm(3 * x) if norm == "post" else x + 2 * sublayer.norm(x)
        torch.testing.assert_close(got, SublayerInput.from_states(expected))


def test_positions_do_not_attend_to_later_ones() -> None:
    model = tiny_model()
    batch = random_batch(model, size=3)
    before = model(batch.source_BS, batch.input_BT, batch.lang_B).decoded
    changed = batch.input_BT.clone()
    changed[:, 2:] = 7
    after = model(batch.source_BS, changed, batch.lang_B).decoded
    torch.testing.assert_close(before[:, :2], after[:, :2])


def test_sentences_longer_than_the_position_table() -> None:
    model = tiny_model()
    source = torch.full((1, 700), 5)
    assert model(source, torch.tensor([[1, 6]]), torch.tensor([0])).decoded.isfinite().all()


def test_float32_and_bfloat16_give_log_probabilities_in_float32() -> None:
    model = tiny_model().float()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        hidden = model(torch.tensor([[5, 1]]), torch.tensor([[1]]), torch.tensor([0])).decoded
        assert model.log_probabilities(hidden).dtype == torch.float32
    assert tiny_model().log_probabilities(torch.randn(2, 16, dtype=torch.float64)).dtype == torch.float64


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_gpu_and_cpu_agree() -> None:
    model = tiny_model()
    batch = random_batch(model)
    expected = model(batch.source_BS, batch.input_BT, batch.lang_B).decoded
    device = torch.device("cuda")
    hidden = model.to(device)(*(x.to(device) for x in (batch.source_BS, batch.input_BT, batch.lang_B)))
    torch.testing.assert_close(hidden.decoded.cpu(), expected)
