from __future__ import annotations

import re

import pytest

from manyglot.reports.learning_curves_html import MAX_TICKS, learning_curves_html, round_ticks
from tests.reports.synthetic_runs import SIX, make_system_facts


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (0, 100, [0, 20, 40, 60, 80, 100]),
        (0, 96.4, [0, 20, 40, 60, 80, 100]),
        (0, 23.7, [0, 5, 10, 15, 20, 25]),
        (0, 10_320, [0, 5000, 10_000, 15_000]),
        (1.57, 3.92, [1.5, 2, 2.5, 3, 3.5, 4]),
        (0.031, 0.068, [0.03, 0.04, 0.05, 0.06, 0.07]),
        (2, 2, [2, 2.05, 2.1, 2.15, 2.2]),
        (0, 0, [0, 0.2, 0.4, 0.6, 0.8, 1]),
        (-3, 4, [-4, -2, 0, 2, 4]),
    ],
)
def test_ticks_are_few_round_numbers_around_the_values(low: float, high: float, ticks: list[float]) -> None:
    assert round_ticks(low, high) == pytest.approx(ticks)
    assert len(ticks) <= MAX_TICKS
    assert ticks[0] <= low <= high <= ticks[-1]


def test_the_axes_of_the_panels_have_round_ticks() -> None:
    curves = make_system_facts(SIX)["curves"]
    page = learning_curves_html([("a", {**curves, "zero_shot_chrf": [[500, 12.5]]})])
    labels = re.findall(r'text-anchor="(end|middle)">([^<]*)</text>', page)
    numbers = [float(text.replace(",", "")) for _, text in labels]
    assert len(numbers) >= 4 * 6, "four panels with two axes"
    for number in numbers:
        digits = f"{number:.6g}".replace(".", "").strip("0")
        assert len(digits) <= 2, f"{number} is not round"
    assert page.count("<circle") == 1, "a single point is visible"


def test_there_are_no_panels_without_points() -> None:
    assert learning_curves_html([]) == ""
    missing = "There are no curves of a: its log.jsonl was missing or damaged at evaluation."
    assert learning_curves_html([("a", {"nll": []})]) == f"<p class=quiet>{missing}</p>"
    page = learning_curves_html([("b", make_system_facts(SIX)["curves"]), ("a", {})])
    assert page.count("<figure>") == 3
    assert missing in page
