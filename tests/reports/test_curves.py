from __future__ import annotations

import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from manyglot.errors import ManyglotError
from manyglot.reports.curves import _apart, _short, draw_curves
from manyglot.reports.history import Curve, History
from manyglot.reports.summary import Summary

CODES = ("de", "en", "ka", "sw")


def line(step: int, level: float = 2.0, codes: tuple[str, ...] = CODES) -> dict[str, Any]:
    """A line of training: 10 tokens into each language, the later ones worse."""
    into = {code: {"nll": level + i + 1 / step, "tokens": 10} for i, code in enumerate(codes)}
    return {
        "step": step,
        "epoch": step // 10,
        "batch": step % 10,
        "loss": level + 1,
        "nll": level + 1 / step,
        "learning_rate": 1e-3,
        "tokens_per_second": 100.0 * step,
        "into": into,
        "seconds": 2.0 * step,
    }


LOG = [line(1), line(2), {"step": 2, "dev_nll": 2.4, "dev_bleu": 7.5, "best": "yes", "seconds": 5.0}, line(4)]


def texts(picture: Path) -> list[str]:
    root = ElementTree.parse(picture).getroot()
    return ["".join(element.itertext()).strip() for element in root.iter("{http://www.w3.org/2000/svg}text")]


def test_a_history_has_the_curves_of_a_log() -> None:
    history = History(LOG)
    assert history.metrics == ["dev_nll", "dev_bleu"]
    assert [each.tolist() for each in history.curve("dev_bleu")] == [[2], [7.5]]
    assert [each.tolist() for each in history.into["ka"]] == [[1, 2, 4], [5, 4.5, 4.25]]
    assert [each.tolist() for each in history.curve("nothing")] == [[], []]
    assert list(history.worst(2)) == ["sw", "ka"]


def test_tokens_are_counted_up_to_each_step() -> None:
    history = History(LOG, by_tokens=True)
    assert history.curve("nll").x.tolist() == [40, 80, 120]
    assert history.curve("dev_nll").x.tolist() == [80]


def test_many_points_become_means() -> None:
    import numpy as np

    curve = Curve(np.arange(10.0), np.arange(10.0) ** 2)
    thin = curve.thinned(5)
    assert thin.x.tolist() == [0.5, 2.5, 4.5, 6.5, 8.5]
    assert thin.y.mean() == curve.y.mean()
    assert curve.thinned(10) is curve


def test_the_picture_names_runs_scores_and_the_worst_languages(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    many = tuple(f"q{letter}" for letter in "abcdefghijklmnopqrst")
    other = [line(step, 3.0, many) for step in range(1, 400)]
    draw_curves({"mine": History(LOG), "other": History(other)}, tmp_path / "curves.svg")
    shown = texts(tmp_path / "curves.svg")
    expected = {"mine", "other", "training", "dev", "dev BLEU", "7.50", "learning rate", "tokens/s", "steps"}
    assert expected <= set(shown)
    assert {"loss into each language, mine", "loss into each language, other"} <= set(shown)
    assert set(CODES) <= set(shown), "few languages are all named"
    assert {code for code in many if code in shown} == {"qt", "qs", "qr", "qq", "qp"}


def test_what_only_some_runs_have_is_drawn_for_those(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    aligned = [each | {"alignment": 0.5} if "loss" in each else each for each in LOG]
    for logs, number in (({"a": LOG}, 0), ({"a": LOG, "b": aligned}, 1)):
        draw_curves({name: History(log) for name, log in logs.items()}, tmp_path / "curves.svg")
        assert texts(tmp_path / "curves.svg").count("alignment") == number


@pytest.mark.parametrize("kind", ["png", "pdf", "svg"])
def test_the_shortest_log_can_be_drawn_as_any_kind_of_picture(kind: str, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    path = tmp_path / f"curves.{kind}"
    draw_curves({"mine": History(LOG[:1], by_tokens=True)}, path)
    assert path.read_bytes().startswith({"png": b"\x89PNG", "pdf": b"%PDF", "svg": b"<?xml"}[kind])


def test_what_cannot_be_drawn_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ManyglotError, match=r"curves\.jpg: a picture is written as \.png, \.svg or \.pdf"):
        draw_curves({"mine": History(LOG)}, tmp_path / "curves.jpg")
    with pytest.raises(ManyglotError, match="At most 7 runs"):
        draw_curves({str(i): History(LOG) for i in range(8)}, tmp_path / "curves.png")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ManyglotError, match=r"pip install 'manyglot\[plot\]'"):
        draw_curves({"mine": History(LOG)}, tmp_path / "curves.png")
    assert not list(tmp_path.iterdir())


def test_words_are_moved_apart_and_keep_their_order() -> None:
    assert _apart([0, 50], 10, lowest=-10) == [0, 50]
    assert _apart([1, 0], 10, lowest=-10) == [5.5, -4.5]
    assert _apart([2, 1, 0, 60], 10, lowest=0) == pytest.approx([20, 10, 0, 60])


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0"), (0.0005, "0.0005"), (950, "950"), (20_000, "20k"), (2.5e6, "2.5M"), (3e9, "3B")]
)
def test_numbers_on_an_axis_are_short(value: float, text: str) -> None:
    assert _short(value) == text


def test_a_summary_tells_the_end_of_a_log() -> None:
    summary = Summary.of(LOG)
    assert summary is not None
    assert (summary.steps, summary.epoch, summary.target_tokens, summary.seconds) == (4, 1, 120, 8.0)
    assert summary.tokens_per_second == pytest.approx(120 / (40 / 100 + 40 / 200 + 40 / 400))
    assert summary.dev == {"dev_nll": 2.4, "dev_bleu": 7.5}
    assert str(summary).splitlines() == [
        "4 steps to epoch 1, 120 target tokens in 8 s, 171 tokens/s",
        "last loss 3.000 (smoothed), dev loss 2.4, dev BLEU 7.5",
        "highest loss into Swahili 5.25, Georgian 4.25, English 3.25",
    ]


def test_the_epoch_is_that_of_the_last_batch() -> None:
    for place, epoch in (((0, 5), 1), ((1, 0), 1), ((1, 3), 2)):
        summary = Summary.of([{**line(1), "epoch": place[0], "batch": place[1]}])
        assert summary is not None
        assert summary.epoch == epoch


def test_there_is_no_summary_without_training() -> None:
    assert Summary.of([]) is None
    assert Summary.of([{"step": 1, "dev_nll": 3.0}]) is None
