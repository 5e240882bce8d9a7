from __future__ import annotations

from collections import Counter

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from manyglot.decoding.beam_search import BeamSearch
from manyglot.decoding.sampling_search import SamplingSearch
from manyglot.decoding.search_batch import SearchBatch
from manyglot.decoding.settings import DecodingSettings
from manyglot.model.guidance import parse_method_settings
from manyglot.model.transformer import Transformer
from manyglot.vocabulary.subword_model import EOS, PAD, UNK
from tests.conftest import random_batch, tiny_model


def make(seed: int = 0) -> Transformer:
    return tiny_model([parse_method_settings({"method": "token", "side": "target"})], seed=seed)


@given(seed=st.integers(0, 30), sharp=st.sampled_from([{"temperature": 1e-4}, {"temperature": 1.0, "top_k": 1}]))
def test_sampling_at_low_temperature_is_greedy(seed: int, sharp: dict[str, float]) -> None:
    model = make(seed)
    batch = random_batch(model, seed=seed)
    inputs = batch.source_BS, batch.lang_B.tolist()
    sampled = SamplingSearch(model, DecodingSettings(beam_size=2, max_length=6, **sharp)).search(SearchBatch(*inputs))  # type: ignore[arg-type]
    best = BeamSearch(model, DecodingSettings(beam_size=1, max_length=6)).search(SearchBatch(*inputs))
    for samples, (greedy,) in zip(sampled, best, strict=True):
        assert [h.ids for h in samples] == [greedy.ids] * 2
        assert samples[0].score == pytest.approx(greedy.score)


@given(seed=st.integers(0, 30))
def test_samples_do_not_depend_on_the_batch(seed: int) -> None:
    model = make(seed)
    batch = random_batch(model, seed=seed)
    sampler, languages = (
        SamplingSearch(model, DecodingSettings(beam_size=3, max_length=6, temperature=1.0)),
        batch.lang_B.tolist(),
    )
    together = sampler.search(SearchBatch(batch.source_BS, languages))
    for row, source_S in enumerate(batch.source_BS):
        (alone,) = sampler.search(
            SearchBatch(source_S[source_S != PAD][None], languages[row : row + 1], sentence_numbers=[row])
        )
        assert [h.ids for h in alone] == [h.ids for h in together[row]]


@pytest.mark.parametrize(("temperature", "top_p"), [(1.0, 1.0), (0.5, 1.0), (1.0, 0.5)])
def test_tokens_are_sampled_by_their_probabilities(temperature: float, top_p: float) -> None:
    model, source_BS = make(), torch.tensor([[5, 9, EOS]])
    settings = DecodingSettings(beam_size=1000, max_length=1, temperature=temperature, top_p=top_p)
    (samples,) = SamplingSearch(model, settings).search(SearchBatch(source_BS, [1]))
    counts = Counter(h.ids for h in samples)
    (first,) = BeamSearch(model, DecodingSettings(beam_size=1, max_length=1)).search(SearchBatch(source_BS, [1]))
    probability = _first_words(model, source_BS, temperature, top_p)
    assert set(counts) <= {(word,) if word != EOS else () for word, p in enumerate(probability) if p > 0}
    for word, p in enumerate(probability):
        assert counts[(word,) if word != EOS else ()] / 1000 == pytest.approx(p, abs=0.05)
    assert top_p == 1.0 or first[0].ids in counts


def _first_words(model: Transformer, source_BS: torch.Tensor, temperature: float, top_p: float) -> list[float]:
    """Return the expected probabilities of the first token."""
    prefix = torch.tensor([[EOS, *model.tags_by_language()[1].target]])
    with torch.no_grad():
        logprob_V = model.log_probabilities(model(source_BS, prefix, torch.tensor([1])).decoded)[0, -1]
    logprob_V[[PAD, UNK, *range(model.dimensions.first_tag_id, len(logprob_V))]] = -torch.inf
    p_V = (logprob_V / temperature).softmax(0)
    order = p_V.argsort(descending=True)
    keep = p_V[order].cumsum(0) - p_V[order] < top_p
    p_V[order[~keep]] = 0
    return (p_V / p_V.sum()).tolist()


def test_samples_are_not_ordered_by_length_or_score() -> None:
    """Samples that end first are mostly short, and callers that need one sample take the first."""
    model = make()
    source_BS = random_batch(model, size=30).source_BS
    samples = SamplingSearch(model, DecodingSettings(beam_size=6, max_length=9, temperature=3.0)).search(
        SearchBatch(source_BS, [0] * 30)
    )
    lengths = [[len(h.ids) for h in samples] for samples in samples]
    means = [sum(column) / 30 for column in zip(*lengths, strict=True)]
    assert max(means) - min(means) < 3
    assert any(each != sorted(each) for each in lengths)


def test_samples_begin_with_the_prefix() -> None:
    model = make()
    settings = DecodingSettings(beam_size=4, max_length=5, temperature=2.0)
    (samples,) = SamplingSearch(model, settings).search(
        SearchBatch(torch.tensor([[5, 9, EOS]]), [0], prefixes=[(7, 8)])
    )
    assert all(h.ids[:2] == (7, 8) for h in samples)
    assert len(samples) == 4
