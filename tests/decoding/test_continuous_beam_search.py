from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from hypothesis import example, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from manyglot.decoding import continuous_beam_search
from manyglot.decoding.beam_search import BeamSearch
from manyglot.decoding.continuous_batch import BeamHistory, ContinuousBatch
from manyglot.decoding.continuous_beam_search import ContinuousBeamSearch
from manyglot.decoding.hypothesis import Hypothesis
from manyglot.decoding.search_batch import SearchBatch
from manyglot.decoding.settings import DecodingSettings
from manyglot.model import guidance as guidance_methods
from manyglot.model.guidance import METHODS
from manyglot.model.output_layer import OutputLayer
from manyglot.vocabulary.subword_model import EOS, PAD
from tests.conftest import NUM_LANGUAGES, NUM_SUBWORDS, random_batch, tiny_model
from tests.decoding.plain_beam import plain_beam
from tests.decoding.test_beam_search import GUIDANCE, make, random_languages
from tests.model.guidance.everywhere import Everywhere

FEWER_EXAMPLES = hypothesis_settings(max_examples=20)  # per guidance


@pytest.fixture(autouse=True, scope="module")
def _few_slots_and_guidance_everywhere() -> Iterator[None]:
    """There are fewer slots than sentences, so that slots are refilled."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(guidance_methods, "METHODS", (*METHODS, Everywhere))
        patch.setattr(continuous_beam_search, "SMALL_SLOT_COUNTS", (1,))
        patch.setattr(continuous_beam_search, "LARGE_SLOT_COUNTS", (2,))
        patch.setattr(continuous_beam_search, "MAX_LIVE_BEAMS", 8)
        patch.setattr(continuous_beam_search, "MAX_ENCODER_TOKENS", 30)
        yield


def ids(results: list[list[Hypothesis]]) -> list[list[tuple[int, ...]]]:
    return [[h.ids for h in hypotheses] for hypotheses in results]


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
    model = make(guidance, seed)
    batch = random_batch(model, seed=seed)
    settings = DecodingSettings(beam_size=beam_size, max_length=max_length, length_penalty=penalty)
    languages = batch.lang_B.tolist()
    prefixes = [tuple(prefix) if row % 2 else () for row in range(len(batch))]
    results = ContinuousBeamSearch(model, settings).search(
        SearchBatch(batch.source_BS, languages, random_languages(batch.source_BS), prefixes=prefixes)
    )
    for row, source_S in enumerate(batch.source_BS):
        random_language = int(source_S.sum()) % NUM_LANGUAGES
        expected = plain_beam(
            model, source_S[source_S != PAD], languages[row], settings, random_language, prefixes[row]
        )
        assert [h.ids for h in results[row]] == [h.ids for h in expected]
        assert [h.score for h in results[row]] == pytest.approx([h.score for h in expected])


@pytest.mark.parametrize("guidance", ["faithful", "decoder"])
@FEWER_EXAMPLES
@given(seed=st.integers(0, 30))
def test_sharing_an_encoded_source_changes_nothing(guidance: str, seed: int) -> None:
    model = make(guidance, seed)
    source_BS = random_batch(model, seed=seed, size=3).source_BS
    source_BS[source_BS >= model.dimensions.first_tag_id] = 5
    sentences, languages = [0, 2, 2, 1, 0, 2], [1, 0, 2, 1, 0, 1]
    settings = DecodingSettings(beam_size=3, max_length=6)
    once = ContinuousBeamSearch(model, settings).search(SearchBatch(source_BS, languages, source_rows=sentences))
    assert ids(once) == ids(BeamSearch(model, settings).search(SearchBatch(source_BS[sentences], languages)))


def test_a_continuous_batch_is_reused_while_it_is_large_enough() -> None:
    model, cached_batches = make("decoder"), dict[int, ContinuousBatch]()
    settings = DecodingSettings(beam_size=2, max_length=6)

    def translate(source: list[list[int]], longest: int = 6) -> None:
        changed = settings.model_copy(update={"max_length": longest, "max_length_factor": 100.0})
        languages = [i % NUM_LANGUAGES for i in range(len(source))]
        source_BS = torch.tensor([[*words, EOS] for words in source])
        results = ContinuousBeamSearch(model, changed, cached_batches=cached_batches).search(
            SearchBatch(source_BS, languages)
        )
        assert ids(results) == ids(BeamSearch(model, changed).search(SearchBatch(source_BS, languages)))

    translate([[5, 6, 7], [8, 9, 10], [11, 12, 13]])
    (many,) = cached_batches.values()
    assert many.capacity.num_slots == 4
    translate([[11, 12, 13], [7, 8, 9]])
    translate([[3, 4, 5]])
    assert cached_batches[many.capacity.num_slots] is many
    assert len(cached_batches) == 2, "a single sentence has its own batch"
    translate([[11, 12, 13], [7, 8, 9]], longest=70)
    assert sorted(cached_batches) == [1, 2]
    assert cached_batches[2].capacity.num_positions == 128


def test_half_precision_finds_similar_hypotheses() -> None:
    model = make("decoder").float()
    full_precision = OutputLayer(model.embedding.weight.detach().clone())
    half = make("decoder").to(torch.bfloat16)
    batch = random_batch(model, size=40)
    settings = DecodingSettings(beam_size=3, max_length=8)
    expected = BeamSearch(model, settings).search(SearchBatch(batch.source_BS, batch.lang_B.tolist()))
    results = ContinuousBeamSearch(half, settings, full_precision).search(
        SearchBatch(batch.source_BS, batch.lang_B.tolist())
    )
    apart = [abs(mine[0].score - theirs[0].score) for mine, theirs in zip(results, expected, strict=True)]
    assert sum(apart) / len(apart) < 0.03
    assert len({h.score for hypotheses in results for h in hypotheses}) > 100, (
        "scores are not rounded to half precision"
    )


def test_endless_outputs_end_at_the_maximum_length() -> None:
    model = tiny_model()
    with torch.no_grad():
        model.embedding.weight[EOS] = -model.embedding.weight[EOS].abs() - 5
    settings = DecodingSettings(beam_size=2, max_length_factor=0.5)
    results = ContinuousBeamSearch(model, settings).search(
        SearchBatch(torch.tensor([[5, 6, 7, EOS], [5, EOS, PAD, PAD]]), [0, 0])
    )
    assert [len(hypotheses[0].ids) for hypotheses in results] == [12, 11]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize("guidance", GUIDANCE)
def test_replaying_the_cuda_graph_gives_the_same_results(guidance: str) -> None:
    """One batch is reused for different sentences, finally for fewer than it has slots."""
    model, cached_batches = make(guidance).float(), dict[int, ContinuousBatch]()
    device = torch.device("cuda")
    copy = make(guidance).float().to(device)
    settings = DecodingSettings(beam_size=3, max_length=9)
    for seed, size in ((1, 30), (2, 40), (3, 1), (4, 2), (5, 1)):
        batch = random_batch(model, seed=seed, size=size)
        languages, random_lang_B = batch.lang_B.tolist(), random_languages(batch.source_BS)
        prefixes = [(7, 8) if row % 3 == 1 else () for row in range(size)]
        expected = BeamSearch(model, settings).search(
            SearchBatch(batch.source_BS, languages, random_lang_B, prefixes=prefixes)
        )
        results = ContinuousBeamSearch(copy, settings, cached_batches=cached_batches).search(
            SearchBatch(batch.source_BS.to(device), languages, random_lang_B.to(device), prefixes=prefixes)
        )
        assert ids(results) == ids(expected)
        for mine, theirs in zip(results, expected, strict=True):
            assert [h.score for h in mine] == pytest.approx([h.score for h in theirs], abs=1e-4)


@given(st.lists(st.integers(0, 12), max_size=30), st.integers(26, 60), st.integers(1, 8))
def test_batches_respect_the_encoder_limits(lengths: list[int], most_tokens: int, most: int) -> None:
    """The limits include tags and end symbols. Each batch mixes long and short sentences, longest first."""
    search = ContinuousBeamSearch(make("source"), DecodingSettings())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(continuous_beam_search, "MAX_SOURCE_TOKENS", most_tokens)
        patch.setattr(continuous_beam_search, "MAX_SEARCH_SENTENCES", most)
        batches = search.index_batches([[5] * length for length in lengths])
    assert sorted(row for batch in batches for row in batch) == [row for row, length in enumerate(lengths) if length]
    for batch in batches:
        sizes = [lengths[row] for row in batch]
        assert sizes == sorted(sizes, reverse=True)
        assert len(batch) <= most
        assert sum(size + len(search.tags[0].source) + 1 for size in sizes) <= most_tokens
    assert max(map(len, batches), default=0) - min(map(len, batches), default=0) <= 1


def test_out_of_memory_is_retried_with_a_new_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    model = make("decoder", 0)
    batch = random_batch(model, size=5)
    search = ContinuousBeamSearch(model, DecodingSettings(beam_size=2, max_length=4))
    languages, run, full = batch.lang_B.tolist(), ContinuousBatch.decode_all, ["then", "now"]
    expected = search.search(SearchBatch(batch.source_BS, languages))
    old_batches = list(search.cached_batches.values())

    def decode_once_there_is_room(*arguments: Any) -> BeamHistory:
        if full:
            raise torch.OutOfMemoryError(full.pop())
        return run(*arguments)

    monkeypatch.setattr(ContinuousBatch, "decode_all", decode_once_there_is_room)
    with pytest.raises(torch.OutOfMemoryError, match="then"):
        search.search(SearchBatch(batch.source_BS, languages))
    assert not search.cached_batches, "a failed batch is dropped"
    full.append("once")
    assert search.search(SearchBatch(batch.source_BS, languages)) == expected
    assert not any(batch in old_batches for batch in search.cached_batches.values())
