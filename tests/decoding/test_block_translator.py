from __future__ import annotations

import pytest

from manyglot.decoding.block_translator import BlockTranslator
from manyglot.decoding.scored_translation import Translation
from manyglot.decoding.translation_requests import TranslationRequest
from manyglot.errors import ManyglotError, OutOfMemory
from tests.decoding.stub import stub


class RecordedProgress:
    def __init__(self) -> None:
        self.amounts: list[int] = []

    def advance(self, amount: int = 1, note: str = "") -> None:
        self.amounts.append(amount)


def test_mixed_requests_are_translated_in_order() -> None:
    block = [
        TranslationRequest("one", None, 1),
        TranslationRequest("two", ("French", "de"), 2),
        TranslationRequest("three", ("klingonian",), 3, location="line 3"),
        TranslationRequest("", None, 4),
        TranslationRequest("Four. Five.", None, 5),
        TranslationRequest("", None, 6, problem="line 6 is bad."),
    ]
    progress = RecordedProgress()
    translated = BlockTranslator(stub(), ["de"], include_scores=True).translate(block, progress=progress)
    results = [(result.number, result.target, result.output) for result in translated.results]
    assert results == [
        (1, "de", "de:one"),
        (2, "fr", "fr:two"),
        (2, "de", "de:two"),
        (3, "klingonian", ""),
        (4, "de", ""),
        (5, "de", "de:Four. de:Five."),
        (6, "de", ""),
    ]
    assert [bool(result.problem) for result in translated.results] == [False, False, False, True, False, False, True]
    assert [result.score for result in translated.results] == [0.0, 0.0, 0.0, None, None, 0.0, None]
    assert translated.num_sentences == 6
    assert [source and source.sentences for source in translated.sources] == [
        ("one",),
        ("two",),
        None,
        ("",),
        ("Four.", "Five."),
        None,
    ]
    assert sum(progress.amounts) == len(block)


def test_the_alternatives_of_a_split_text_join_those_of_its_sentences() -> None:
    translator = stub(lambda text, code: ["a", "a2", "a3"] if text == "Ab." else ["b", "b2"])
    (result,) = (
        BlockTranslator(translator, ["de"], n_best=3, include_scores=True)
        .translate([TranslationRequest("Ab. Cd.", None, 1)])
        .results
    )
    assert (result.output, result.score) == ("a b", 0.0)
    assert result.alternatives == (Translation("a2 b2", -1.0), Translation("a3 b2", -1.5))


def test_a_text_is_on_target_if_all_its_sentences_are() -> None:
    translator = stub(lambda text, code: [text * 3]).with_off_target_filter(
        lambda texts, targets: ["de" if "good" in text.lower() else "fr" for text in texts]
    )
    block = [
        TranslationRequest("The good. Good good.", None, 1),
        TranslationRequest("The good. Drift.", None, 2),
    ]
    results = BlockTranslator(translator, ["de"]).translate(block).results
    assert [result.on_target for result in results] == [True, False]


def test_an_empty_block_is_valid() -> None:
    (result,) = BlockTranslator(stub()).translate([TranslationRequest("", None, 1)]).results
    assert (result.target, result.output, result.problem) == ("", "", "")


def test_a_request_the_engine_rejects_does_not_stop_the_others() -> None:
    def rule(text: str, code: str) -> list[str]:
        if text == "long":
            raise ManyglotError("It is too long.")
        return [f"{code}:{text}"]

    block = [TranslationRequest(text, None, 1, location="line 1 of stdin") for text in ("one", "long", "two")]
    results = BlockTranslator(stub(rule), ["de"]).translate(block).results
    assert [result.output for result in results] == ["de:one", "", "de:two"]
    assert results[1].problem == "line 1 of stdin: It is too long."


def test_out_of_memory_is_not_retried_per_request() -> None:
    asked = []

    def fill(text: str, code: str) -> list[str]:
        asked.append(text)
        raise OutOfMemory("A search does not fit into the memory of cpu.")

    with pytest.raises(OutOfMemory):
        BlockTranslator(stub(fill), ["de"]).translate(
            [TranslationRequest("one", None, 1), TranslationRequest("two", None, 2)]
        )
    assert asked == ["one"]
