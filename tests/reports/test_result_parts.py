from __future__ import annotations

from dataclasses import replace
from xml.etree import ElementTree

import pytest

from manyglot.evaluation.evaluator import DirectionResult, Evaluation, TranslationExample
from manyglot.reports.direction_heatmap import direction_heatmap_svg
from manyglot.reports.displayable import print_parts
from manyglot.reports.result_parts import evaluation_averages_parts, translation_example_parts
from tests.corpus.language_code_lists import FLORES_200
from tests.reports.synthetic_runs import evaluation_without_text


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
        TranslationExample("de", "fr", True, "<b>Hund & Katze</b>", "dog", "chien", "en"),
        TranslationExample("de", "en", False, "Hund", "dog", "dog", "en"),
    ],
    identifier_signature="a test",
    chrf_signature="nw:2",
    central_language="en",
    settings={"decoding": {"beam_size": 5}},
)


def test_the_heat_map_has_a_cell_for_each_direction_and_metric() -> None:
    svg = ElementTree.fromstring(direction_heatmap_svg(EVALUATION))
    tooltips = [element.text for element in svg.iter("{http://www.w3.org/2000/svg}title")]
    assert tooltips[:4] == [
        "German → English: 71",
        "English → German: 64",
        "German → French: 3",
        "English → French: 50",
    ]
    assert tooltips[4:] == [
        "German → English: 98",
        "English → German: 97",
        "German → French: 12",
        "English → French: –",
    ]


def test_the_heat_map_of_many_languages_has_small_cells() -> None:
    svg = direction_heatmap_svg(evaluation_without_text(FLORES_200[:70]))
    root = ElementTree.fromstring(svg)
    squares = "".join(path.attrib["d"] for path in root.iter("{http://www.w3.org/2000/svg}path"))
    assert squares.count("z") == 2 * 70 * 69, "two metrics"
    assert len(svg) < 400_000


def test_the_terminal_shows_averages_examples_and_excluded_targets(capsys: pytest.CaptureFixture[str]) -> None:
    print_parts(evaluation_averages_parts(EVALUATION))
    print_parts(translation_example_parts(EVALUATION.select_display_examples(2)))
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


def test_columns_without_values_are_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    unknown = [
        replace(each, language_accuracy=None, reference_language_accuracy=None) for each in EVALUATION.directions
    ]
    print_parts(evaluation_averages_parts(replace(EVALUATION, directions=unknown)))
    heading = capsys.readouterr().out.splitlines()[1]
    assert [cell.strip() for cell in heading.strip("┃").split("┃")] == ["directions", "number", "BLEU", "chrF++"]


def test_examples_are_spread_evenly_over_both_groups() -> None:
    examples = [
        TranslationExample("en", target, zero, "text", "o", "r", "x") for zero in (False, True) for target in "aabbcc"
    ]
    selected = replace(EVALUATION, examples=examples).select_display_examples(6)
    assert [(e.zero_shot, e.target) for e in selected] == [(zero, target) for zero in (False, True) for target in "abc"]
    assert replace(EVALUATION, examples=examples[:1]).select_display_examples(6) == examples[:1]
