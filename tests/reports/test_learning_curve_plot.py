from __future__ import annotations

import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from manyglot.errors import ManyglotError
from manyglot.reports.learning_curve_plot import _format_short, _spread_apart, plot_learning_curves
from manyglot.reports.run_summary import RunSummary
from manyglot.reports.training_history import Curve, TrainingHistory
from tests.commands import run

CODES = ("de", "en", "ka", "sw")


def line(step: int, level: float = 2.0, codes: tuple[str, ...] = CODES) -> dict[str, Any]:
    """A training record: 10 tokens into each language, with higher losses for later languages."""
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
    history = TrainingHistory(LOG)
    assert history.validation_metric_names == ["dev_nll", "dev_bleu"]
    assert [axis.tolist() for axis in history.metric_curve("dev_bleu")] == [[2], [7.5]]
    assert [axis.tolist() for axis in history.nll_by_target["ka"]] == [[1, 2, 4], [5, 4.5, 4.25]]
    assert [axis.tolist() for axis in history.metric_curve("nothing")] == [[], []]
    assert list(history.highest_loss_targets(2)) == ["sw", "ka"]


def test_values_that_are_not_finite_are_left_out(tmp_path: Path) -> None:
    """A run may diverge; its log stays readable, plottable and summarizable."""
    nan = float("nan")
    diverged = line(3) | {"nll": nan, "alignment": nan, "into": {"de": {"nll": nan, "tokens": 10}}}
    log = [line(1), line(2), diverged, {"step": 3, "dev_nll": nan, "dev_bleu": float("inf"), "seconds": 5.0}]
    history = TrainingHistory(log)
    assert history.metric_curve("nll").x.tolist() == [1, 2]
    assert history.nll_by_target["de"].x.tolist() == [1, 2]
    assert history.validation_metric_names == []
    plot_learning_curves({"a": history}, tmp_path / "curves.svg")
    assert "2.50" in texts(tmp_path / "curves.svg")
    summary = RunSummary.from_log(
        [{key: value for key, value in each.items() if key != "tokens_per_second"} for each in log]
    )
    assert summary is not None
    assert (summary.last_validation, summary.tokens_per_second) == ({}, 0)


@pytest.mark.parametrize("content", [b"", b"\xff\n", b'{"step": 1}\n', b"[" * 5000 + b"\n"])
def test_a_log_without_curves_is_one_line(content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "log.jsonl").write_bytes(content)
    _, messages = run(capsys, "plot", tmp_path, "-o", tmp_path / "curves.svg", code=2)
    assert messages.splitlines()[-1].startswith(
        f"manyglot: {tmp_path / 'log.jsonl'} has no training record with a loss"
    )
    assert not (tmp_path / "curves.svg").exists()


def test_steps_are_converted_to_tokens() -> None:
    history = TrainingHistory(LOG, by_tokens=True)
    assert history.metric_curve("nll").x.tolist() == [40, 80, 120]
    assert history.metric_curve("dev_nll").x.tolist() == [80]


def test_downsampling_averages_points() -> None:
    import numpy as np

    curve = Curve(np.arange(10.0), np.arange(10.0) ** 2)
    thin = curve.downsample(5)
    assert thin.x.tolist() == [0.5, 2.5, 4.5, 6.5, 8.5]
    assert thin.y.mean() == curve.y.mean()
    assert curve.downsample(10) is curve


def test_the_plot_labels_runs_metrics_and_the_highest_losses(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    many = tuple(f"q{letter}" for letter in "abcdefghijklmnopqrst")
    other = [line(step, 3.0, many) for step in range(1, 400)]
    plot_learning_curves({"mine": TrainingHistory(LOG), "other": TrainingHistory(other)}, tmp_path / "curves.svg")
    shown = texts(tmp_path / "curves.svg")
    expected = {"mine", "other", "training", "dev", "dev BLEU", "7.50", "learning rate", "tokens/s", "steps"}
    assert expected <= set(shown)
    assert {"loss into each language, mine", "loss into each language, other"} <= set(shown)
    assert set(CODES) <= set(shown), "few languages are all labeled"
    assert {code for code in many if code in shown} == {"qt", "qs", "qr", "qq", "qp"}


def test_metrics_of_some_runs_are_plotted_for_those_runs(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    aligned = [record | {"alignment": 0.5} if "loss" in record else record for record in LOG]
    for logs, number in (({"a": LOG}, 0), ({"a": LOG, "b": aligned}, 1)):
        plot_learning_curves({name: TrainingHistory(log) for name, log in logs.items()}, tmp_path / "curves.svg")
        assert texts(tmp_path / "curves.svg").count("alignment") == number


@pytest.mark.parametrize("kind", ["png", "pdf", "svg"])
def test_the_shortest_log_can_be_plotted_in_any_format(kind: str, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    path = tmp_path / f"curves.{kind}"
    plot_learning_curves({"mine": TrainingHistory(LOG[:1], by_tokens=True)}, path)
    assert path.read_bytes().startswith({"png": b"\x89PNG", "pdf": b"%PDF", "svg": b"<?xml"}[kind])


def test_plots_that_cannot_be_drawn_raise_one_line_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ManyglotError, match=r"curves\.jpg: unknown image format\. Use \.png, \.svg or \.pdf"):
        plot_learning_curves({"mine": TrainingHistory(LOG)}, tmp_path / "curves.jpg")
    with pytest.raises(ManyglotError, match="at most 7 runs"):
        plot_learning_curves({str(i): TrainingHistory(LOG) for i in range(8)}, tmp_path / "curves.png")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ManyglotError, match=r"pip install 'manyglot\[plot\]'"):
        plot_learning_curves({"mine": TrainingHistory(LOG)}, tmp_path / "curves.png")
    assert not list(tmp_path.iterdir())


def test_labels_are_moved_apart_and_keep_their_order() -> None:
    assert _spread_apart([0, 50], 10, lowest=-10) == [0, 50]
    assert _spread_apart([1, 0], 10, lowest=-10) == [5.5, -4.5]
    assert _spread_apart([2, 1, 0, 60], 10, lowest=0) == pytest.approx([20, 10, 0, 60])


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0"), (0.0005, "0.0005"), (950, "950"), (20_000, "20k"), (2.5e6, "2.5M"), (3e9, "3B")]
)
def test_axis_numbers_are_short(value: float, text: str) -> None:
    assert _format_short(value) == text


def test_a_summary_has_the_totals_and_final_values_of_a_log() -> None:
    summary = RunSummary.from_log(LOG)
    assert summary is not None
    assert (summary.num_steps, summary.epoch, summary.num_target_tokens, summary.seconds) == (4, 1, 120, 8.0)
    assert summary.tokens_per_second == pytest.approx(120 / (40 / 100 + 40 / 200 + 40 / 400))
    assert summary.last_validation == {"dev_nll": 2.4, "dev_bleu": 7.5}
    assert str(summary).splitlines() == [
        "4 steps, the last in epoch 1 (counted from 1), 120 target tokens in 8 s, 171 tokens/s",
        "last loss 3.000 (smoothed), dev loss 2.4, dev BLEU 7.5",
        "highest loss into Swahili 5.25, Georgian 4.25, English 3.25",
    ]


def test_the_epoch_is_the_one_of_the_last_batch() -> None:
    for epoch, batch, expected in ((0, 5, 1), (1, 0, 1), (1, 3, 2)):
        summary = RunSummary.from_log([{**line(1), "epoch": epoch, "batch": batch}])
        assert summary is not None
        assert summary.epoch == expected


def test_a_log_without_training_has_no_summary() -> None:
    assert RunSummary.from_log([]) is None
    assert RunSummary.from_log([{"step": 1, "dev_nll": 3.0}]) is None
