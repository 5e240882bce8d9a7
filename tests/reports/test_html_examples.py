from __future__ import annotations

from dataclasses import replace
from html import escape
from typing import Any

import pytest

from manyglot.corpus.languages import Direction
from manyglot.evaluation.metrics import score_translations
from manyglot.evaluation.results import DirectionGroup, Evaluation
from manyglot.evaluation.translation_examples import TranslationExample
from manyglot.reports import html_examples
from manyglot.reports.html_report import make_report_run
from manyglot.reports.html_report_data import build_html_report_data
from tests.reports.synthetic_runs import SIX, synthetic_evaluation, with_statistics

ONE, OTHER = with_statistics(synthetic_evaluation(SIX, 1)), synthetic_evaluation(SIX, 2)


def report_data(*evaluations: Evaluation) -> dict[str, Any]:
    return build_html_report_data([make_report_run(f"run {i}", e, {}) for i, e in enumerate(evaluations)])


def examples_by_direction(evaluation: Evaluation) -> dict[Direction, list[TranslationExample]]:
    groups: dict[Direction, list[TranslationExample]] = {}
    for example in evaluation.examples:
        groups.setdefault(Direction(example.source, example.target), []).append(example)
    return groups


def test_the_worst_directions_have_their_worst_sentences_and_all_directions_a_worst_and_a_median_one() -> None:
    data = report_data(ONE, OTHER)
    ours, theirs = examples_by_direction(ONE), examples_by_direction(OTHER)
    worst = {d.direction for results in html_examples.lowest_bleu_directions(ONE).values() for d in results}
    for i, d in enumerate(ONE.directions):
        order = ONE.statistics[d.direction].order_from_worst(d.target).tolist()
        entries = data["examples"][i]
        assert [entry.rank for entry in entries] == ([1, 2, 3, 0] if d.direction in worst else [1, 0])
        for entry, index in zip(entries, [*order[: len(entries) - 1], order[4]], strict=True):
            expected, other = ours[d.direction][index], theirs[d.direction][index]
            assert data["texts"][entry.source_text] == expected.source_text
            assert data["texts"][entry.output] == expected.output
            assert entry.chrf == pytest.approx(
                score_translations([expected.output], [expected.reference], "en").chrf, abs=0.06
            )
            text, language = entry.other_outputs[0]
            assert (data["texts"][text], language) == (other.output, other.identified_language)
    off_target = [d for d in ONE.directions if d.language_accuracy and d.language_accuracy < 60]
    assert off_target
    indices = {d.direction: i for i, d in enumerate(ONE.directions)}
    assert all(data["examples"][indices[d.direction]][0].identified_language != d.target for d in off_target)


def test_the_page_lists_the_worst_sentences_of_the_worst_directions() -> None:
    runs = [make_report_run("one", ONE, {})]
    page = html_examples.worst_directions_html(runs, build_html_report_data(runs))
    assert page.count("<dl class=sentence>") == 20 * 3, "the median sentence is not among the worst"
    assert "outputs in a wrong language first" in page
    first = html_examples.lowest_bleu_directions(ONE)[DirectionGroup.SUPERVISED][0]
    order = ONE.statistics[first.direction].order_from_worst(first.target)
    shown = [page.index(escape(examples_by_direction(ONE)[first.direction][i].source_text)) for i in order[:3]]
    assert shown == sorted(shown), "worst first"
    assert "statistics.npz is missing" not in page
    without = [make_report_run("one", replace(ONE, statistics={}), {})]
    page = html_examples.worst_directions_html(without, build_html_report_data(without))
    assert "spread evenly over the test set, because statistics.npz is missing" in page
    assert "chrF++</dt>" not in page


def test_sentences_are_evenly_spaced_without_statistics() -> None:
    data = report_data(OTHER)
    worst = html_examples.lowest_bleu_directions(OTHER)[DirectionGroup.ZERO_SHOT][0].direction
    index = [d.direction for d in OTHER.directions].index(worst)
    group = examples_by_direction(OTHER)[worst]
    shown = [data["texts"][entry.source_text] for entry in data["examples"][index]]
    assert shown == [group[k].source_text for k in (1, 4, 6)]
    assert {entry.rank for entry in data["examples"][index]} == {None}
    assert len(data["examples"]) == 30, "every direction has an example"


def test_the_least_important_examples_are_dropped_if_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(html_examples, "NUM_WORST_DIRECTIONS", 2)
    ranks = [[entry.rank for entry in entries] for entries in report_data(ONE)["examples"].values()]
    assert sorted(ranks) == [[1, 0]] * 26 + [[1, 2, 3, 0]] * 4
    size = len("".join(report_data(ONE)["texts"]).encode())
    monkeypatch.setattr(html_examples, "MAX_EXAMPLE_BYTES", size - 1)
    ranks = [[entry.rank for entry in entries] for entries in report_data(ONE)["examples"].values()]
    assert sorted(ranks) == [[1]] * 26 + [[1, 2, 3]] * 4, "without the median sentences"
    monkeypatch.setattr(html_examples, "MAX_EXAMPLE_BYTES", 100)
    data = report_data(ONE)
    assert [[entry.rank for entry in entries] for entries in data["examples"].values()] == [[1, 2, 3]] * 4
    texts = {n for entries in data["examples"].values() for entry in entries for n in entry[:3]}
    assert texts == set(range(len(data["texts"]))), "only the texts of these examples are stored"
