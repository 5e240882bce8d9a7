"""Scores that are found approximately and then corrected are those of full precision."""

from __future__ import annotations

import pytest
import torch

from manyglot.decoding import token_scorer
from manyglot.decoding.extended_engine import restrict_output
from manyglot.decoding.token_scorer import TokenScorer, blockwise_topk
from manyglot.model.cpu_inference import Int8OutputLayer, supports_int8_output_layer
from manyglot.model.settings import ModelSettings
from manyglot.model.transformer import Transformer

WIDTH, NUM_SUBWORDS = 32, 400


def make_model(*, bias: bool = False) -> Transformer:
    torch.manual_seed(0)
    model = Transformer(ModelSettings(width=WIDTH, num_heads=2, ffn_width=8, output_bias=bias), [], NUM_SUBWORDS, 3)
    model.embedding.weight.data.normal_()
    if model.output_bias is not None:
        model.output_bias.data.normal_()
    return model.eval()


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("kind", ["bfloat16", "int8"])
def test_corrected_scores_are_nearly_exact(kind: str, bias: bool) -> None:
    if kind == "int8" and not supports_int8_output_layer():
        pytest.skip("this CPU has no products of 8-bit integers")
    model = make_model(bias=bias)
    full, hidden_ND = model.output_layer.detach(), torch.randn(70, WIDTH)
    exact = TokenScorer(model)
    exact.compute_scores(hidden_ND)
    expected_NC, expected_token_NC = exact.masked_topk(5)
    half = make_model(bias=bias).to(torch.bfloat16)
    int8_layer = Int8OutputLayer(full.weight_VD) if kind == "int8" else None
    scorer = TokenScorer(half, full, int8_layer)
    scorer.compute_scores(hidden_ND)
    uncorrected_N = scorer._log_normalizer_N.clone()
    logprob_NC, token_NC = scorer.masked_topk(5)
    assert torch.equal(token_NC[:, 0], expected_token_NC[:, 0])
    assert (token_NC == expected_token_NC).float().mean() > 0.97
    assert (logprob_NC[:, 0] - expected_NC[:, 0]).abs().mean() < 0.005
    error, uncorrected = (
        (normalizer_N - exact._log_normalizer_N).abs().mean()
        for normalizer_N in (scorer._log_normalizer_N, uncorrected_N)
    )
    assert error < 0.3 * uncorrected
    same = TokenScorer(half, full, int8_layer)
    same.compute_scores(hidden_ND)
    assert torch.equal(same.token_log_probs(token_NC[:, 0]), scorer.token_log_probs(token_NC[:, 0]))
    assert torch.allclose(same.token_log_probs(token_NC[:, 0]), logprob_NC[:, 0], atol=1e-5)


@pytest.mark.parametrize("num_candidates", [1, 3])
def test_the_normalizer_does_not_depend_on_the_beam(num_candidates: int) -> None:
    model, hidden_ND = make_model(), torch.randn(4, WIDTH)
    normalizers = []
    for k in (num_candidates, 30):
        scorer = TokenScorer(make_model().to(torch.bfloat16), model.output_layer.detach())
        scorer.compute_scores(hidden_ND)
        scorer.masked_topk(k)
        normalizers.append(scorer._log_normalizer_N)
    assert torch.allclose(*normalizers, atol=1e-6)


@pytest.mark.parametrize("num_tokens", [640, 700])
@pytest.mark.parametrize("num_rows", [1, 5])
def test_blockwise_topk_is_topk(num_tokens: int, num_rows: int) -> None:
    torch.manual_seed(num_tokens)
    score_NV = torch.randn(num_rows, num_tokens)
    score_NV[:, 3:50] = -torch.inf
    for k in (1, 7):
        for ours, theirs in zip(blockwise_topk(score_NV, k), score_NV.topk(k), strict=True):
            assert torch.equal(ours, theirs)


def test_large_vocabularies_use_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    model, hidden_ND = make_model(), torch.randn(3, WIDTH)
    results = []
    for limit in (1, 10**6):
        monkeypatch.setattr(token_scorer, "MIN_TOKENS_FOR_BLOCKS", limit)
        monkeypatch.setattr(token_scorer, "BLOCK_TOKENS", 8)
        scorer = TokenScorer(model)
        scorer.compute_scores(hidden_ND)
        results.append(scorer.masked_topk(6))
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))


def test_scores_of_a_language_with_few_subwords_are_nearly_exact() -> None:
    model = make_model(bias=True)
    ids, hidden_ND = [1, *range(300, 400)], torch.randn(20, WIDTH)
    restricted = restrict_output(model, ids)
    half = restrict_output(make_model(bias=True), ids).to(torch.bfloat16)
    layers = [None, Int8OutputLayer(model.embedding.weight)] if supports_int8_output_layer() else [None]
    exact = TokenScorer(restricted)
    exact.compute_scores(hidden_ND)
    for int8_layer in layers:
        scorer = TokenScorer(half, restricted.output_layer.detach(), int8_layer)
        scorer.compute_scores(hidden_ND)
        difference_NC = scorer.masked_topk(1)[0] - exact.masked_topk(1)[0]
        assert difference_NC.abs().max() < 0.05


def test_sampling_needs_exact_scores_of_all_tokens() -> None:
    model, hidden_ND = make_model(), torch.randn(3, WIDTH)
    plain, exact = TokenScorer(model), TokenScorer.exact(make_model().to(torch.bfloat16), model.output_layer.detach())
    for scorer in (plain, exact):
        scorer.compute_scores(hidden_ND)
    assert exact.dtype == torch.float32
    assert torch.equal(plain.masked_topk(NUM_SUBWORDS)[0], exact.masked_topk(NUM_SUBWORDS)[0])
