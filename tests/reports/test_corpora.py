from __future__ import annotations

import numpy as np
import pytest

from manyglot.corpus.languages import Direction
from manyglot.corpus.sampling import epoch_counts
from manyglot.reports.corpora import Preview, preview_svg, print_dropped, print_preview, print_subwords

SIZES = {Direction("de", "en"): 1_000_000, Direction("en", "de"): 1_000_000, Direction("is", "en"): 1000}
PREVIEW = Preview.of(SIZES, {f"temperature:{t}": epoch_counts(np.array(list(SIZES.values())), t) for t in (None, 5.0)})


def test_shares_and_epochs_follow_from_the_temperature() -> None:
    assert [seen.pairs for seen in PREVIEW.directions.values()] == [1_000_000, 1_000_000, 1000]
    for name in PREVIEW.samplings:
        assert sum(seen.share[name] for seen in PREVIEW.directions.values()) == pytest.approx(1)
    assert [seen.epochs["temperature:None"] for seen in PREVIEW.directions.values()] == [1, 1, 1]
    assert PREVIEW.directions[Direction("is", "en")].epochs["temperature:5.0"] > 100


def test_the_directions_into_a_language_are_added_up() -> None:
    into = PREVIEW.targets["en"]
    assert into.pairs == 1_001_000
    shares = [PREVIEW.directions[Direction(code, "en")].share["temperature:5.0"] for code in ("de", "is")]
    assert into.share["temperature:5.0"] == pytest.approx(sum(shares))
    assert into.epochs["temperature:None"] == 1


def test_what_repeats_often_is_warned_of(capsys: pytest.CaptureFixture[str]) -> None:
    (line,) = PREVIEW.warnings()
    assert line.startswith("T = 5.0: is→en repeats ")
    print_preview(PREVIEW)
    assert line in capsys.readouterr().out


def test_the_picture_has_a_bar_for_each_target_and_temperature() -> None:
    picture = preview_svg(PREVIEW)
    assert picture.count("<rect") == 1 + 2 * 2
    assert "T = 5.0" in picture


def test_tables_of_the_preparation(capsys: pytest.CaptureFixture[str]) -> None:
    print_subwords({"de": {"sentences": 2, "words": 10, "subwords": 25, "unknown": 1}, "en": {}})
    dropped = {"train": {"de": {"too_long": 3}, "en": {"too_long": 1, "wrong_script": 2}}}
    examples = {"train": {"de": {"too_long": ["lang", "länger"]}, "en": {"too_long": ["long"], "wrong_script": ["ё"]}}}
    print_dropped(dropped, examples, 2)
    printed = capsys.readouterr().out
    assert "2.50" in printed
    assert "4.00%" in printed
    assert "left out of train: 4 too long (most in de 3, en 1)\n  de: lang\n  de: länger\nleft" in printed
