from __future__ import annotations

from typing import Any

import pytest
import torch

from manyglot.corpus.languages import Languages
from manyglot.decoding import continuous_beam_search, native_engine
from manyglot.decoding.beam_search import BeamSearch
from manyglot.decoding.continuous_beam_search import ContinuousBeamSearch
from manyglot.decoding.engine import SearchRequest
from manyglot.decoding.hypothesis import Hypothesis
from manyglot.decoding.native_engine import NativeEngine
from manyglot.decoding.settings import DecodingSettings
from manyglot.errors import ManyglotError
from manyglot.model.folding import try_fold_guidance
from manyglot.model.guidance import parse_method_settings
from manyglot.model.transformer import Transformer
from tests.conftest import tiny_model

LANGUAGES = Languages(["qaa", "qab", "qac"])
SETTINGS = DecodingSettings(beam_size=3, max_length=6)
SOURCES = [[5, 6, 7], [8, 9], [], [10, 11, 12]]


def engine(*guidance: dict[str, object], **options: object) -> NativeEngine:
    model = tiny_model([parse_method_settings(each) for each in guidance])
    return NativeEngine(model, LANGUAGES, SETTINGS, torch.device("cpu"), **options)  # type: ignore[arg-type]


def search(
    engine: NativeEngine,
    sources: list[list[int]],
    languages: list[int],
    settings: DecodingSettings = SETTINGS,
    **options: Any,
) -> list[list[Hypothesis]]:
    return engine.search(SearchRequest(sources, languages, settings, **options))


def ids(results: list[list[Hypothesis]]) -> list[list[tuple[int, ...]]]:
    return [[h.ids for h in hypotheses] for hypotheses in results]


@pytest.mark.parametrize(
    ("guidance", "once"),
    [
        ({"method": "laa", "init_gain": 1.0}, True),
        ({"method": "token", "side": "target"}, True),
        ({"method": "token"}, False),
    ],
)
def test_a_source_is_encoded_once_for_all_its_targets(
    guidance: dict[str, object], once: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = engine(guidance)
    read = []
    encode = Transformer.encode

    def counted(self: Transformer, source_BS: torch.Tensor, *others: object) -> object:
        read.append(len(source_BS))
        return encode(self, source_BS, *others)  # type: ignore[arg-type]

    monkeypatch.setattr(Transformer, "encode", counted)
    jobs = [(source, language) for language in range(3) for source in SOURCES]
    together = search(one, [source for source, _ in jobs], [language for _, language in jobs])
    assert sum(read) == (3 if once else 9)
    alone = [search(one, [source], [language])[0] for source, language in jobs]
    assert ids(together) == ids(alone)


def test_many_sentences_into_one_language_use_a_folded_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native_engine, "MIN_SENTENCES_TO_FOLD", 4)
    made: list[int] = []

    def record_and_fold(model: Transformer, language: int) -> Transformer | None:
        made.append(language)
        return try_fold_guidance(model, language)

    monkeypatch.setattr(native_engine, "try_fold_guidance", record_and_fold)
    plain, faster = (
        engine({"method": "laa", "init_gain": 1.0}),
        engine({"method": "laa", "init_gain": 1.0}, fold_guidance=True),
    )
    for languages in ([1, 1, 1, 1], [1, 1, 1, 1], [2, 2, 2, 2], [0, 1, 2, 0]):
        assert ids(search(faster, SOURCES, languages)) == ids(search(plain, SOURCES, languages))
    search(faster, SOURCES[:3], [0] * 3)
    assert made == [1, 2], "once per language, and not for few sentences or several languages"


def test_guidance_that_cannot_be_folded_is_used_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native_engine, "MIN_SENTENCES_TO_FOLD", 2)
    one = engine({"method": "adapter"}, fold_guidance=True)
    assert ids(search(one, SOURCES, [1] * 4)) == ids(search(engine({"method": "adapter"}), SOURCES, [1] * 4))


def test_half_precision_converts_a_copy_of_the_model() -> None:
    one = engine({"method": "laa", "init_gain": 1.0})
    results = search(one, SOURCES, [0, 1, 2, 0], SETTINGS.model_copy(update={"precision": "bfloat16"}))
    assert [len(hypotheses) > 0 for hypotheses in results] == [True] * 4
    assert one.model.embedding.weight.dtype == torch.float64
    assert results[2] == [Hypothesis((), 0.0)]


def test_a_cpu_uses_bfloat16_if_it_is_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    single = engine({"method": "laa", "init_gain": 1.0}).model.float()
    for has, wide, expected in ((True, 8, True), (False, 8, False), (True, 4096, False)):
        monkeypatch.setattr(native_engine, "cpu_supports_bfloat16", lambda has=has: has)
        monkeypatch.setattr(native_engine, "MIN_WIDTH_FOR_CPU_BFLOAT16", wide)
        one = NativeEngine(single, LANGUAGES, SETTINGS, torch.device("cpu"))
        assert one._uses_bfloat16("auto") is expected
        assert [one._uses_bfloat16("float32"), one._uses_bfloat16("bfloat16")] == [False, True]
        assert engine({"method": "laa", "init_gain": 1.0})._uses_bfloat16("auto") is False, (
            "float64 weights are for exact tests"
        )


def test_prefixes_and_sampling() -> None:
    one = engine({"method": "laa", "init_gain": 1.0})
    given = search(one, SOURCES, [0] * 4, prefixes=[[7], [8, 9], [], []])
    assert all(h.ids[:1] == (7,) for h in given[0])
    assert all(h.ids[:2] == (8, 9) for h in given[1])
    settings = SETTINGS.model_copy(update={"temperature": 1.0})
    sampled = search(one, SOURCES, [0] * 4, settings)
    assert ids(sampled) == ids(search(one, SOURCES, [0] * 4, settings))
    assert ids(sampled) != ids(search(one, SOURCES, [0] * 4, settings.model_copy(update={"seed": 2})))
    assert ids(sampled)[3:] == ids(search(one, SOURCES[3:], [0], settings, sentence_offset=3))


def test_continuous_batching_matches_the_plain_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only GPUs use continuous batching by default."""
    monkeypatch.setattr(continuous_beam_search, "MAX_SEARCH_SENTENCES", 3)
    plain, other = engine({"method": "laa", "init_gain": 1.0}), engine({"method": "laa", "init_gain": 1.0})
    monkeypatch.setattr(other, "_make_search", lambda request: ContinuousBeamSearch(other.model, request.settings))
    sources, languages = [*SOURCES, *SOURCES, [7] * 9], [0, 1, 2, 0, 1, 1, 1, 1, 2]
    assert ids(search(other, sources, languages)) == ids(search(plain, sources, languages))


def test_out_of_memory_is_reported_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def fill(*_: object, **__: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 512.00 MiB.\nGPU 0 has …")

    monkeypatch.setattr(BeamSearch, "search", fill)
    with pytest.raises(
        ManyglotError, match=r"A search does not fit into the memory of cpu\. Lower decoding\.max_batch_tokens"
    ):
        search(engine({"method": "laa", "init_gain": 1.0}), SOURCES, [0] * len(SOURCES))


def test_a_short_block_of_a_large_model_has_fewer_sentences(monkeypatch: pytest.MonkeyPatch) -> None:
    num_parameters = sum(parameter.numel() for parameter in engine().model.parameters())
    for sentences, expected in ((10**6, 1024), (300, 300), (3, 64)):
        monkeypatch.setattr(native_engine, "SHORT_BLOCK_PARAMETERS", sentences * num_parameters)
        assert engine().short_block_size == expected
