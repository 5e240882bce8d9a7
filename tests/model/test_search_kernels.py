"""The kernels of beam search agree with plain PyTorch: on a GPU, or interpreted if Triton is installed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

GPU = torch.cuda.is_available()
pytest.importorskip("triton")

from manyglot.model.continuous_executor import Slots, SourceSpans, StaticCrossKV, StaticSelfKV  # noqa: E402
from manyglot.model.kernels import top_candidates  # noqa: E402
from manyglot.model.kernels.add_norm import add_norm_inference  # noqa: E402
from manyglot.model.kernels.static_kv_attention import append_and_self_attend, cross_attend_sources  # noqa: E402
from manyglot.model.sublayer_io import SublayerOutput  # noqa: E402

DEVICE = torch.device("cuda" if GPU else "cpu")
DTYPES = [torch.float32, torch.bfloat16] if GPU else [torch.float32]


def random(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(shape, device=DEVICE).to(dtype)


@pytest.mark.parametrize("number", [1, 5, 40])
@pytest.mark.parametrize("vocabulary", [37, 200])
def test_top_candidates(number: int, vocabulary: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(top_candidates, "LANES", 32)
    monkeypatch.setattr(top_candidates, "COLUMNS_PER_READ", 2)
    torch.manual_seed(0)
    scores, base, allowed = torch.randn(12, vocabulary + 5), torch.randn(4, 3), range(1, vocabulary - 3)
    base[0, 1:] = -torch.inf
    scores, base = scores.to(DEVICE), base.to(DEVICE)
    beams, words, total = top_candidates.top_candidates(scores, base, number, vocabulary, allowed, forbidden_token=2)
    scores = scores[:, :vocabulary]
    torch.testing.assert_close(total, scores.logsumexp(dim=1))
    scores = scores.log_softmax(dim=1) + base.view(-1, 1)
    scores[:, [0, 2, *range(allowed.stop, vocabulary)]] = -torch.inf
    values, places = scores.view(4, -1).topk(number)
    finite = values.isfinite()
    assert torch.equal((beams * vocabulary + words)[finite], places[finite])


def test_top_indices() -> None:
    values = torch.randn(7, 77, device=DEVICE)
    values[3, 5:] = -torch.inf
    places = top_candidates.top_indices(values, 9)
    expected = values.topk(9)
    assert torch.equal(values.gather(1, places), expected.values)
    assert int(places.max()) < 77
    assert all(len(set(row)) == 9 for row in places.tolist()), "each once"


@pytest.mark.parametrize("dtype", DTYPES)
def test_candidate_log_probs(dtype: torch.dtype) -> None:
    hidden, weight = random(2, 3, 48, dtype=dtype), random(9, 48)
    beams, words = torch.tensor([[0, 1, 2, 2], [1, 1, 0, 2]], device=DEVICE), torch.randint(9, (2, 4), device=DEVICE)
    total = torch.randn(6, device=DEVICE)
    log_probs = top_candidates.candidate_log_probs(hidden, weight, beams, words, total)
    for i in range(2):
        expected = (hidden[i, beams[i]].float() * weight[words[i]]).sum(dim=1) - total.view(2, 3)[i, beams[i]]
        torch.testing.assert_close(log_probs[i], expected)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("beam", "heads", "width"), [(3, 2, 32), (1, 3, 24), (17, 2, 32)])
def test_static_kv_attention(dtype: torch.dtype, beam: int, heads: int, width: int) -> None:
    """Decode step by step, with changing ancestors and a sentence that replaces another."""
    torch.manual_seed(0)
    num_slots, num_positions, tokens, tolerance = 3, 25, 60, 1e-5 if dtype == torch.float32 else 0.1
    close = partial(torch.testing.assert_close, rtol=tolerance, atol=tolerance)
    lengths = torch.tensor([4, 33, 1, 22])
    sources = SourceSpans((lengths.cumsum(dim=0) - lengths).to(DEVICE), lengths.to(DEVICE))
    slots = Slots.allocate(num_slots, beam, num_positions, DEVICE)
    slots.sentence_B.copy_(torch.tensor([3, 1, 0]))
    cross_cache = StaticCrossKV(slots, sources, *(random(tokens, width, dtype=dtype) for _ in range(2)))
    unused = torch.empty(0), torch.empty(0)
    cache = StaticSelfKV(
        slots, *unused, *(random(num_slots, beam, num_positions, width, dtype=dtype) for _ in range(2))
    )
    reference_cache = replace(cache, key_BKTD=cache.key_BKTD.clone(), value_BKTD=cache.value_BKTD.clone())
    for step in range(num_positions - 1):
        qkv, term = (random(num_slots * beam, n * width, dtype=dtype) for n in (3, 1))
        added = term if step % 2 else None
        slots.slot_order_B.copy_(torch.randperm(num_slots))
        mine = append_and_self_attend(
            qkv,
            added,
            (cache.key_BKTD, cache.value_BKTD),
            slots.ancestor_BKT,
            slots.num_decoded_B,
            slots.slot_order_B,
            heads,
        )
        close(mine, without_kernels(reference_cache.append_and_attend)(qkv, added, heads))
        where = slots.sentence_B, sources.start_S, sources.length_S, slots.slot_order_B
        mine = cross_attend_sources(term, added, (cross_cache.key_MD, cross_cache.value_MD), *where, heads)
        close(mine, without_kernels(cross_cache.attend)(term, added, heads))
        parent = torch.randint(beam, (num_slots, beam), device=DEVICE)
        slots.ancestor_BKT.copy_(slots.ancestor_BKT.gather(1, parent[..., None].expand(-1, -1, num_positions)))
        slots.ancestor_BKT[torch.arange(num_slots), :, slots.num_decoded_B] = parent.short()
        slots.num_decoded_B += 1
        if step == 5:
            slots.num_decoded_B[0], slots.sentence_B[0] = 0, 2


def without_kernels(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Run a function without kernels."""

    def called(*arguments: Any) -> Tensor:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("manyglot.model.kernels.has_triton", lambda: False)
            return function(*arguments)

    return called


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("with_term", [True, False])
def test_add_norm_inference(dtype: torch.dtype, with_term: bool) -> None:
    norm = nn.LayerNorm(24, device=DEVICE, dtype=dtype)
    nn.init.normal_(norm.weight)
    x, y, term = (torch.randn(5, 3, 24, device=DEVICE).to(dtype) for _ in range(3))
    output, tables = SublayerOutput(y, None, term if with_term else None), (norm.weight.detach(), norm.bias.detach())
    mine = add_norm_inference(x, output, *tables, norm.eps)
    theirs = norm(x + y + (term if with_term else 0))
    tolerance = 1e-5 if dtype == torch.float32 else 0.05
    torch.testing.assert_close(mine, theirs, rtol=tolerance, atol=tolerance)
    language = torch.tensor([1, 0, 0, 3, 2], device=DEVICE)
    gain, shift = torch.randn(2, 4, 24, device=DEVICE).to(dtype)
    mine = add_norm_inference(x, output, gain, shift, norm.eps, language)
    theirs = F.layer_norm(x + y + (term if with_term else 0), (24,), eps=norm.eps)
    theirs = theirs * gain[language][:, None] + shift[language][:, None]
    torch.testing.assert_close(mine, theirs, rtol=tolerance, atol=tolerance)
