from __future__ import annotations

from dataclasses import replace
from xml.etree import ElementTree

import pytest

from manyglot.evaluation.evaluate import DirectionResult, Evaluation, Example
from manyglot.reports.matrix import matrix_svg
from manyglot.reports.tables import print_averages, print_examples


def result(source: str, target: str, bleu: float, accuracy: float | None) -> DirectionResult:
    return DirectionResult(source, target, "en" not in (source, target), 10, bleu, bleu + 5, accuracy, 99.0, "tok:13a")


EVALUATION = Evaluation(
    directions=[
        result("de", "en", 71.4, 98),
        result("en", "de", 64, 97),
        result("de", "fr", 3.2, 12),
        result("en", "fr", 50, None),
    ],
    examples=[
        Example("de", "fr", True, "<b>Hund & Katze</b>", "dog", "chien", "en"),
        Example("de", "en", False, "Hund", "dog", "dog", "en"),
    ],
    identifier="a test",
    chrf_signature="nw:2",
    pivot="en",
    settings={"decoding": {"beam": 5}},
)


def test_the_matrix_has_a_cell_for_each_direction_and_measure() -> None:
    svg = ElementTree.fromstring(matrix_svg(EVALUATION))
    tips = [element.text for element in svg.iter("{http://www.w3.org/2000/svg}title")]
    assert tips[:4] == ["German → English: 71", "English → German: 64", "German → French: 3", "English → French: 50"]
    assert tips[4:] == ["German → English: 98", "English → German: 97", "German → French: 12", "English → French: –"]


def test_the_terminal_shows_averages_and_names_what_it_leaves_out(capsys: pytest.CaptureFixture[str]) -> None:
    print_averages(EVALUATION)
    print_examples(EVALUATION.sample(2))
    shown = capsys.readouterr().out
    for text in (
        "zero-shot",
        "3.2",
        "12.0%",
        "BLEU tok:13a",
        "does not know: fr",
        "<b>Hund & Katze</b>",
        "reference chien",
    ):
        assert text in shown


def test_examples_are_an_even_sample_of_both_kinds() -> None:
    examples = [Example("en", target, zero, "text", "o", "r", "x") for zero in (False, True) for target in "aabbcc"]
    picked = replace(EVALUATION, examples=examples).sample(6)
    assert [(e.zero_shot, e.target) for e in picked] == [(zero, target) for zero in (False, True) for target in "abc"]
    assert replace(EVALUATION, examples=examples[:1]).sample(6) == examples[:1]
