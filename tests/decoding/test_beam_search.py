from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
import torch
from hypothesis import example, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from manyglot.decoding.beam_search import BeamSearch
from manyglot.decoding.hypothesis import Hypothesis
from manyglot.decoding.search_batch import SearchBatch
from manyglot.decoding.settings import DecodingSettings
from manyglot.model import guidance as guidance_methods
from manyglot.model.guidance import METHODS, parse_method_settings
from manyglot.model.output_layer import OutputLayer
from manyglot.model.transformer import Transformer
from manyglot.vocabulary.subword_model import EOS, PAD
from tests.conftest import NUM_LANGUAGES, NUM_SUBWORDS, random_batch, tiny_model
from tests.decoding.plain_beam import plain_beam
from tests.decoding.plain_greedy import plain_greedy
from tests.model.guidance.everywhere import Everywhere

GUIDANCE = {
    "source": [{"method": "token"}],
    "faithful": [{"method": "token", "side": "target"}],
    "clean": [{"method": "token", "side": "target", "mode": "clean"}],
    "everywhere": [{"method": "everywhere"}],
    "matrices": [
        {"method": "laa", "init_gain": 1.0, "sites": ["dec.self", "dec.cross"]},
        {"method": "lalt"},
        {"method": "adapter"},
    ],
    "decoder": [
        {"method": "laa", "init_gain": 1.0},
        {"method": "lee", "sites": ["memory", "dec.self"]},
        {"method": "lalt"},
    ],
    "random": [{"method": "random_laa", "init_gain": 1.0, "sites": ["dec.self", "dec.cross"]}, {"method": "token"}],
}


FEWER_EXAMPLES = hypothesis_settings(max_examples=30)  # per guidance


@pytest.fixture(autouse=True, scope="module")
def _with_everywhere() -> Iterator[None]:
    """The search must pass on the target languages too, not only the tags."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(guidance_methods, "METHODS", (*METHODS, Everywhere))
        yield


def make(guidance: str, seed: int = 0) -> Transformer:
    return tiny_model([parse_method_settings(each) for each in GUIDANCE[guidance]], seed=seed)


def random_languages(source_BS: torch.Tensor) -> torch.Tensor:
    """Return a random language per sentence that depends on its tokens alone."""
    return source_BS.sum(dim=1) % NUM_LANGUAGES


def search(
    model: Transformer, source_BS: torch.Tensor, languages: list[int], **settings: float
) -> list[list[Hypothesis]]:
    batch = SearchBatch(source_BS, languages, random_languages(source_BS))
    return BeamSearch(model, DecodingSettings(**settings)).search(batch)  # type: ignore[arg-type]


@torch.inference_mode()
def log_probability(
    model: Transformer, source_S: torch.Tensor, language: int, words: tuple[int, ...], max_length: int
) -> float:
    """Return the log-probability of an output after its tags, computed in one forward pass.

    The end symbol counts unless the output has the maximum length.
    """
    tag = model.tags_by_language()[language]
    ids = [tag.start, *tag.target, *words]
    batch = source_S[None], torch.tensor([ids]), torch.tensor([language])
    hidden = model(*batch, random_lang_B=random_languages(source_S[None]))
    logprob_TV = model.log_probabilities(hidden.decoded)[0]
    labels = [*tag.target, *words, EOS]
    scored = range(len(tag.target), len(labels) - (len(words) == max_length))
    return float(sum(logprob_TV[i, labels[i]] for i in scored))


@pytest.mark.parametrize("guidance", GUIDANCE)
@FEWER_EXAMPLES
@given(seed=st.integers(0, 30), penalty=st.sampled_from([0.0, 1.0]))
def test_beam_size_one_is_greedy_search(guidance: str, seed: int, penalty: float) -> None:
    model = make(guidance, seed)
    batch = random_batch(model, seed=seed)
    settings = DecodingSettings(beam_size=1, max_length=9, length_penalty=penalty)
    results = BeamSearch(model, settings).search(
        SearchBatch(batch.source_BS, batch.lang_B.tolist(), random_languages(batch.source_BS))
    )
    for source_S, language, hypotheses in zip(batch.source_BS, batch.lang_B.tolist(), results, strict=True):
        random_language = int(source_S.sum()) % NUM_LANGUAGES
        expected = plain_greedy(model, source_S[source_S != PAD], language, settings, random_language)
        assert hypotheses[0].ids == expected.ids
        assert hypotheses[0].score == pytest.approx(expected.score)


@pytest.mark.parametrize("guidance", GUIDANCE)
@FEWER_EXAMPLES
@given(seed=st.integers(0, 30), beam_size=st.integers(1, 5))
def test_batched_search_equals_sentence_by_sentence_search(guidance: str, seed: int, beam_size: int) -> None:
    model = make(guidance, seed)
    batch = random_batch(model, seed=seed)
    languages = batch.lang_B.tolist()
    together = search(model, batch.source_BS, languages, beam_size=beam_size, max_length=7)
    for row, source_S in enumerate(batch.source_BS):
        (alone,) = search(
            model, source_S[source_S != PAD][None], languages[row : row + 1], beam_size=beam_size, max_length=7
        )
        assert [h.ids for h in alone] == [h.ids for h in together[row]]


@pytest.mark.parametrize("guidance", GUIDANCE)
@FEWER_EXAMPLES
@given(seed=st.integers(0, 30), penalty=st.sampled_from([0.0, 0.6, 1.0]))
def test_scores_are_length_normalized_log_probabilities(guidance: str, seed: int, penalty: float) -> None:
    model = make(guidance, seed)
    batch = random_batch(model, seed=seed)
    languages = batch.lang_B.tolist()
    results = search(model, batch.source_BS, languages, beam_size=3, max_length=6, length_penalty=penalty)
    tags = 1 if guidance in ("faithful", "everywhere") else 0
    for source_S, language, hypotheses in zip(batch.source_BS, languages, results, strict=True):
        assert [h.score for h in hypotheses] == sorted((h.score for h in hypotheses), reverse=True)
        for h in hypotheses:
            total = log_probability(model, source_S[source_S != PAD], language, h.ids, 6)
            assert h.score == pytest.approx(total / (len(h.ids) + 1 + tags) ** penalty)


@pytest.mark.parametrize("guidance", GUIDANCE)
@FEWER_EXAMPLES
@given(
    seed=st.integers(0, 60),
    beam_size=st.integers(1, 4),
    penalty=st.sampled_from([0.0, 0.6, 1.0]),
    max_length=st.integers(1, 6),
    prefix=st.lists(st.integers(3, NUM_SUBWORDS - 1), max_size=3),
)
@example(seed=0, beam_size=2, penalty=1.0, max_length=2, prefix=[4, 5, 6])
def test_search_matches_the_plain_reference(
    guidance: str, seed: int, beam_size: int, penalty: float, max_length: int, prefix: list[int]
) -> None:
    """Every other sentence has a prefix, so that some tokens are forced while others are free."""
    model = make(guidance, seed)
    batch = random_batch(model, seed=seed)
    settings = DecodingSettings(beam_size=beam_size, max_length=max_length, length_penalty=penalty)
    languages = batch.lang_B.tolist()
    prefixes = [tuple(prefix) if row % 2 else () for row in range(len(batch))]
    results = BeamSearch(model, settings).search(
        SearchBatch(batch.source_BS, languages, random_languages(batch.source_BS), prefixes=prefixes)
    )
    for row, source_S in enumerate(batch.source_BS):
        chosen = int(source_S.sum()) % NUM_LANGUAGES
        expected = plain_beam(model, source_S[source_S != PAD], languages[row], settings, chosen, prefixes[row])
        assert [h.ids for h in results[row]] == [h.ids for h in expected]
        assert [h.score for h in results[row]] == pytest.approx([h.score for h in expected])


@pytest.mark.parametrize("guidance", ["faithful", "clean", "decoder"])
@given(seed=st.integers(0, 30))
def test_sharing_an_encoded_source_changes_nothing(guidance: str, seed: int) -> None:
    model = make(guidance, seed)
    source_BS = random_batch(model, seed=seed, size=3).source_BS
    source_BS[source_BS >= model.dimensions.first_tag_id] = 5
    sentences, languages = [0, 2, 2, 1, 0, 2], [1, 0, 2, 1, 0, 1]
    settings = DecodingSettings(beam_size=3, max_length=6)
    once = BeamSearch(model, settings).search(SearchBatch(source_BS, languages, source_rows=sentences))
    again = BeamSearch(model, settings).search(SearchBatch(source_BS[sentences], languages))
    assert [[h.ids for h in hypotheses] for hypotheses in once] == [[h.ids for h in each] for each in again]


def test_affects_encoder_is_known_for_each_guidance() -> None:
    assert make("source").guidance.affects_encoder
    assert make("everywhere").guidance.affects_encoder
    assert not make("decoder").guidance.affects_encoder
    assert tiny_model(
        [parse_method_settings({"method": "laa", "init_gain": 1.0, "sites": ["enc.self", "dec.self"]})]
    ).guidance.affects_encoder


def test_half_precision_finds_similar_hypotheses() -> None:
    model = make("decoder").float()
    full_precision = OutputLayer(model.embedding.weight.detach().clone())
    half = make("decoder").to(torch.bfloat16)
    batch = random_batch(model, size=40)
    settings = DecodingSettings(beam_size=3, max_length=8)
    expected = BeamSearch(model, settings).search(SearchBatch(batch.source_BS, batch.lang_B.tolist()))
    results = BeamSearch(half, settings, full_precision).search(SearchBatch(batch.source_BS, batch.lang_B.tolist()))
    apart = [abs(mine[0].score - theirs[0].score) for mine, theirs in zip(results, expected, strict=True)]
    assert sum(apart) / len(apart) < 0.03
    assert len({h.score for hypotheses in results for h in hypotheses}) > 100, (
        "scores are not rounded to half precision"
    )


@given(seed=st.integers(0, 20))
def test_an_exhaustive_beam_finds_the_best_output(seed: int) -> None:
    """With outputs of at most one token and a beam that holds all of them, the search is exhaustive."""
    model = make("source", seed)
    source = [model.tags_by_language()[1].source[0], 5, 9, EOS]
    beam_size = NUM_SUBWORDS
    (results,) = search(model, torch.tensor([source]), [1], beam_size=beam_size, max_length=1, length_penalty=1.0)
    words = range(3, NUM_SUBWORDS)
    outputs = [(), *itertools.product(words)]
    scores = {o: log_probability(model, torch.tensor(source), 1, o, 1) / (len(o) + 1) for o in outputs}
    best = max(scores, key=lambda o: scores[o])
    assert results[0].ids == best
    assert results[0].score == pytest.approx(scores[best])


def test_each_output_is_limited_by_its_own_source_length() -> None:
    settings = DecodingSettings(max_length=200, max_length_factor=2.0)
    assert [settings.max_output_length(n) for n in (1, 10, 500)] == [12, 30, 200]
    model = tiny_model()
    with torch.no_grad():
        model.embedding.weight[EOS] = -model.embedding.weight[EOS].abs() - 5  # the model never ends an output
    results = search(
        model, torch.tensor([[5, 6, 7, EOS], [5, EOS, PAD, PAD]]), [0, 0], beam_size=2, max_length_factor=0.5
    )
    assert all(len(h.ids) <= 12 for h in results[0])
    assert all(len(h.ids) <= 11 for h in results[1])


def test_tags_padding_and_unknown_tokens_are_never_generated() -> None:
    for seed in range(10):
        model = make("faithful", seed)
        batch = random_batch(model, seed=seed)
        for hypotheses in search(model, batch.source_BS, batch.lang_B.tolist(), beam_size=4, max_length=8):
            assert len(hypotheses) <= 4
            assert all(3 <= i < NUM_SUBWORDS for h in hypotheses for i in h.ids)


def test_a_smaller_beam_size_allows_larger_batches() -> None:
    settings = DecodingSettings(beam_size=5, max_batch_tokens=100, length_penalty=0.5)
    greedy = settings.with_beam_size_and_scaled_batch(1)
    assert (greedy.beam_size, greedy.max_batch_tokens, greedy.length_penalty) == (1, 500, 0.5)
    assert (settings.max_batch_sentences, greedy.max_batch_sentences) == (256, 1280)
    assert settings.with_beam_size_and_scaled_batch(5) == settings
    assert settings.with_beam_size_and_scaled_batch(10).max_batch_tokens == 50


def test_batches_respect_their_size_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("manyglot.decoding.settings.MAX_BATCH_HYPOTHESES", 15)
    sources = [[5] * n for n in (3, 1, 0, 9, 2, 2, 4, 1)]
    batches = list(BeamSearch(tiny_model(), DecodingSettings(beam_size=5, max_batch_tokens=10)).index_batches(sources))
    assert sorted(i for batch in batches for i in batch) == [0, 1, 3, 4, 5, 6, 7]
    for batch in batches:
        assert len(batch) <= 3
        assert len(batch) * max(len(sources[i]) for i in batch) <= 10
