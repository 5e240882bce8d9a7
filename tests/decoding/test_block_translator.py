from __future__ import annotations

import pytest

from manyglot.decoding.block_translator import BlockTranslator
from manyglot.decoding.requests import Request
from manyglot.decoding.translation import Translation
from manyglot.errors import ManyglotError, MemoryIsFull
from tests.decoding.stub import stub


class Told:
    def __init__(self) -> None:
        self.amounts: list[int] = []

    def advance(self, amount: int = 1, note: str = "") -> None:
        self.amounts.append(amount)


def test_a_block_of_different_requests_is_translated_in_order() -> None:
    block = [
        Request("one", None, 1),
        Request("two", ("French", "de"), 2),
        Request("three", ("klingonian",), 3, place="line 3"),
        Request("", None, 4),
        Request("four. five.", None, 5, parts=("four.", "five.")),
        Request("", None, 6, problem="line 6 is bad."),
    ]
    told = Told()
    translated = BlockTranslator(stub(), ["de"], scores=True).translate(block, progress=told)
    found = [(result.number, result.to, result.output) for result in translated.results]
    assert found == [
        (1, "de", "de:one"),
        (2, "fr", "fr:two"),
        (2, "de", "de:two"),
        (3, "klingonian", ""),
        (4, "de", ""),
        (5, "de", "de:four. de:five."),
        (6, "de", ""),
    ]
    assert [bool(result.problem) for result in translated.results] == [False, False, False, True, False, False, True]
    assert [result.score for result in translated.results] == [0.0, 0.0, 0.0, None, None, 0.0, None]
    assert translated.num_sentences == 6
    assert sum(told.amounts) == len(block)


def test_alternatives_are_those_of_one_sentence() -> None:
    block = [Request("a", None, 1), Request("a. b.", None, 2, parts=("a.", "b."))]
    one, split = BlockTranslator(stub(), ["de"], n_best=3).translate(block).results
    assert one.alternatives == (Translation("de:a.", -1.0), Translation("de:a..", -2.0))
    assert (one.score, split.alternatives) == (None, ())


def test_a_text_is_on_target_when_all_its_sentences_are() -> None:
    translator = stub(lambda text, code: [text * 3]).with_off_target_filter(
        lambda texts, targets: ["de" if "good" in text else "fr" for text in texts]
    )
    block = [Request("", None, 1, parts=("good good", "good good")), Request("", None, 2, parts=("good good", "drift"))]
    results = BlockTranslator(translator, ["de"]).translate(block).results
    assert [result.on_target for result in results] == [True, False]


def test_nothing_to_translate_is_nothing_wrong() -> None:
    (result,) = BlockTranslator(stub()).translate([Request("", None, 1)]).results
    assert (result.to, result.output, result.problem) == ("", "", "")


def test_what_the_engine_refuses_does_not_stop_the_others() -> None:
    def rule(text: str, code: str) -> list[str]:
        if text == "long":
            raise ManyglotError("It is too long.")
        return [f"{code}:{text}"]

    block = [Request(text, None, 1, place="line 1 of stdin") for text in ("one", "long", "two")]
    results = BlockTranslator(stub(rule), ["de"]).translate(block).results
    assert [result.output for result in results] == ["de:one", "", "de:two"]
    assert results[1].problem == "line 1 of stdin: It is too long."


def test_where_memory_is_full_nothing_is_tried_one_by_one() -> None:
    asked = []

    def fill(text: str, code: str) -> list[str]:
        asked.append(text)
        raise MemoryIsFull("A search does not fit into the memory of cpu.")

    with pytest.raises(MemoryIsFull):
        BlockTranslator(stub(fill), ["de"]).translate([Request("one", None, 1), Request("two", None, 2)])
    assert asked == ["one"]
