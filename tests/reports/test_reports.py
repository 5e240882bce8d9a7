from __future__ import annotations

from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest

from manyglot.evaluation.evaluate import DirectionResult, Evaluation, Example
from manyglot.reports.matrix import matrix_svg
from manyglot.reports.page import write_report
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


class Links(HTMLParser):
    """Everything a page would fetch."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [value for name, value in attrs if name in ("src", "href") and value]


def test_the_page_is_whole_and_escapes_text(tmp_path: Path) -> None:
    log = [{"step": 1, "nll": 5.0}, {"step": 2, "nll": 4.0}, {"step": 2, "dev_nll": 4.5}]
    path = write_report(tmp_path, "a <title>", EVALUATION, log, {"seed": 1})
    page = path.read_text("utf-8")
    links = Links()
    links.feed(page)
    assert links.found == [], "the page needs nothing from elsewhere"
    assert "&lt;b&gt;Hund &amp; Katze&lt;/b&gt;" in page
    assert "<b>Hund" not in page
    assert page.count("<td class=wrong>en</td>") == 1, "a wrong language stands out, a right one does not"
    for text in ("71.4", "German → French", "zero-shot", "training 4.00", "dev 4.50", "seed: 1", "tok:13a"):
        assert text in page
    assert (tmp_path / "matrix.svg").read_text("utf-8") in page


def test_a_run_without_a_log_has_no_curve(tmp_path: Path) -> None:
    assert "Learning" not in write_report(tmp_path, "t", EVALUATION, [], {}).read_text("utf-8")


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
