from __future__ import annotations

import pytest

from manyglot.corpus.languages import Direction
from manyglot.reports.corpora import preview, preview_svg, print_dropped, print_preview, print_subwords, warnings

SIZES = {Direction("de", "en"): 1_000_000, Direction("en", "de"): 1_000_000, Direction("is", "en"): 1000}


def test_shares_and_epochs_follow_from_the_temperature() -> None:
    rows = preview(SIZES, [None, 5.0])
    assert [row["pairs"] for row in rows] == [1_000_000, 1_000_000, 1000]
    for name in ("none", "5"):
        assert sum(row["share"][name] for row in rows) == pytest.approx(1)  # type: ignore[index]
    assert [row["epochs"]["none"] for row in rows] == [1, 1, 1]  # type: ignore[index]
    assert rows[2]["epochs"]["5"] > 100  # type: ignore[index]


def test_what_repeats_often_is_warned_of(capsys: pytest.CaptureFixture[str]) -> None:
    rows = preview(SIZES, [None, 5.0])
    (line,) = warnings(rows)
    assert line.startswith("T = 5: is→en repeats ")
    print_preview(rows)
    assert line in capsys.readouterr().out


def test_the_picture_has_a_bar_for_each_target_and_temperature() -> None:
    picture = preview_svg(preview(SIZES, [None, 1.0, 5.0]))
    assert picture.count("<rect") == 1 + 2 * 3
    assert "T = 5" in picture


def test_tables_of_the_preparation(capsys: pytest.CaptureFixture[str]) -> None:
    print_subwords({"de": {"sentences": 2, "words": 10, "subwords": 25, "unknown": 1}, "en": {}})
    dropped = {"train": {"de": {"too long": 3}, "en": {"too long": 1, "wrong script": 2}}}
    examples = {"train": {"de": {"too long": ["lang", "länger"]}, "en": {"too long": ["long"], "wrong script": ["ё"]}}}
    print_dropped(dropped, examples, 2)
    printed = capsys.readouterr().out
    assert "2.50" in printed
    assert "4.00%" in printed
    assert "left out of train: 4 too long (most in de 3, en 1)\n  de: lang\n  de: länger\nleft" in printed
