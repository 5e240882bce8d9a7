from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from manyglot.decoding.beam import BeamSearch, DecodingSettings, Hypothesis
from manyglot.decoding.greedy import greedy
from manyglot.model import guidance as guidance_methods
from manyglot.model.guidance import METHODS, read_method
from manyglot.model.transformer import Transformer
from manyglot.vocabulary.subwords import EOS, PAD
from tests.conftest import NUM_LANGUAGES, NUM_SUBWORDS, random_batch, tiny_model
from tests.model.guidance.everywhere import Everywhere

GUIDANCE = {
    "source": [{"method": "token"}],
    "faithful": [{"method": "token", "side": "target"}],
    "clean": [{"method": "token", "side": "target", "mode": "clean"}],
    "everywhere": [{"method": "everywhere"}],
    "matrices": [{"method": "laa", "sites": ["dec.self", "dec.cross"]}, {"method": "lalt"}, {"method": "adapter"}],
    "random": [{"method": "random_laa", "sites": ["dec.self", "dec.cross"]}, {"method": "token"}],
}


@pytest.fixture(autouse=True, scope="module")
def _with_everywhere() -> Iterator[None]:
    """The search must hand on the target languages too, not only the tags."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(guidance_methods, "METHODS", (*METHODS, Everywhere))
        yield


def make(guidance: str, seed: int = 0) -> Transformer:
    return tiny_model([read_method(each) for each in GUIDANCE[guidance]], seed=seed)


def drawn(source_BS: torch.Tensor) -> torch.Tensor:
    """A language for each sentence by its words alone, for guidance that draws at random."""
    return source_BS.sum(dim=1) % NUM_LANGUAGES


def search(
    model: Transformer, source_BS: torch.Tensor, languages: list[int], **settings: float
) -> list[list[Hypothesis]]:
    return BeamSearch(model, DecodingSettings(**settings)).search(source_BS, languages, drawn(source_BS))  # type: ignore[arg-type]


@torch.inference_mode()
def log_probability(model: Transformer, source_S: torch.Tensor, language: int, words: tuple[int, ...]) -> float:
    """The log-probability of a whole output, by one pass over it."""
    tag = model.tags()[language]
    ids = [EOS, *tag.target, *words]
    hidden = model.hidden(source_S[None], torch.tensor([ids]), torch.tensor([language]), drawn(source_S[None]))
    logprob_TV = model.log_probabilities(hidden)[0]
    labels = [*tag.target, *words, EOS]
    scored = range(0 if tag.predicted else len(tag.target), len(labels))
    return float(sum(logprob_TV[i, labels[i]] for i in scored))


@pytest.mark.parametrize("guidance", GUIDANCE)
@given(seed=st.integers(0, 30), penalty=st.sampled_from([0.0, 1.0]))
def test_a_beam_of_one_is_greedy(guidance: str, seed: int, penalty: float) -> None:
    model = make(guidance, seed)
    batch = random_batch(model, seed=seed)
    settings = DecodingSettings(beam=1, max_length=9, length_penalty=penalty)
    found = BeamSearch(model, settings).search(batch.source_BS, batch.lang_B.tolist(), drawn(batch.source_BS))
    for source_S, language, hypotheses in zip(batch.source_BS, batch.lang_B.tolist(), found, strict=True):
        expected = greedy(model, source_S[source_S != PAD], language, settings, int(source_S.sum()) % NUM_LANGUAGES)
        assert hypotheses[0].ids == expected.ids
        assert hypotheses[0].score == pytest.approx(expected.score)


@pytest.mark.parametrize("guidance", GUIDANCE)
@given(seed=st.integers(0, 30), beam=st.integers(1, 5))
def test_a_batch_is_its_sentences_one_by_one(guidance: str, seed: int, beam: int) -> None:
    model = make(guidance, seed)
    batch = random_batch(model, seed=seed)
    languages = batch.lang_B.tolist()
    together = search(model, batch.source_BS, languages, beam=beam, max_length=7)
    for row, source_S in enumerate(batch.source_BS):
        (alone,) = search(model, source_S[source_S != PAD][None], languages[row : row + 1], beam=beam, max_length=7)
        assert [h.ids for h in alone] == [h.ids for h in together[row]]


@pytest.mark.parametrize("guidance", GUIDANCE)
@given(seed=st.integers(0, 30), penalty=st.sampled_from([0.0, 0.6, 1.0]))
def test_scores_are_the_log_probabilities_over_the_length(guidance: str, seed: int, penalty: float) -> None:
    model = make(guidance, seed)
    batch = random_batch(model, seed=seed)
    languages = batch.lang_B.tolist()
    found = search(model, batch.source_BS, languages, beam=3, max_length=6, length_penalty=penalty)
    tags = 1 if guidance in ("faithful", "everywhere") else 0
    for source_S, language, hypotheses in zip(batch.source_BS, languages, found, strict=True):
        assert [h.score for h in hypotheses] == sorted((h.score for h in hypotheses), reverse=True)
        for h in hypotheses:
            total = log_probability(model, source_S[source_S != PAD], language, h.ids)
            assert h.score == pytest.approx(total / (len(h.ids) + 1 + tags) ** penalty)


@given(seed=st.integers(0, 20))
def test_a_beam_as_wide_as_everything_finds_the_best_output(seed: int) -> None:
    """With outputs of at most one word and a beam that holds all of them, the search is exhaustive."""
    model = make("source", seed)
    source = [model.tags()[1].source[0], 5, 9, EOS]
    beam = NUM_SUBWORDS
    (found,) = search(model, torch.tensor([source]), [1], beam=beam, max_length=1, length_penalty=1.0)
    words = range(3, NUM_SUBWORDS)
    outputs = [(), *itertools.product(words)]
    scores = {o: log_probability(model, torch.tensor(source), 1, o) / (len(o) + 1) for o in outputs}
    best = max(scores, key=lambda o: scores[o])
    assert found[0].ids == best
    assert found[0].score == pytest.approx(scores[best])


def test_lengths_are_limited_by_the_source_sentence_by_sentence() -> None:
    settings = DecodingSettings(max_length=200, max_length_ratio=2.0)
    assert [settings.limit(n) for n in (1, 10, 500)] == [12, 30, 200]
    model = tiny_model()
    with torch.no_grad():
        model.embedding.weight[EOS] = -model.embedding.weight[EOS].abs() - 5  # an end that never comes by itself
    found = search(model, torch.tensor([[5, 6, 7, EOS], [5, EOS, PAD, PAD]]), [0, 0], beam=2, max_length_ratio=0.5)
    assert all(len(h.ids) <= 12 for h in found[0])
    assert all(len(h.ids) <= 11 for h in found[1])


def test_tags_padding_and_unknown_words_are_never_written() -> None:
    for seed in range(10):
        model = make("faithful", seed)
        batch = random_batch(model, seed=seed)
        for hypotheses in search(model, batch.source_BS, batch.lang_B.tolist(), beam=4, max_length=8):
            assert len(hypotheses) <= 4
            assert all(3 <= i < NUM_SUBWORDS for h in hypotheses for i in h.ids)


def test_a_narrower_beam_has_larger_batches() -> None:
    settings = DecodingSettings(beam=5, max_tokens=100, max_sentences=7, length_penalty=0.5)
    greedy = settings.with_beam(1)
    assert (greedy.beam, greedy.max_tokens, greedy.max_sentences, greedy.length_penalty) == (1, 500, 35, 0.5)
    assert settings.with_beam(5) == settings
    assert settings.with_beam(8).max_tokens == 100
