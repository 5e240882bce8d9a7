from __future__ import annotations

import json
from dataclasses import asdict

import pytest

from manyglot.errors import ManyglotError
from manyglot.training.best import Best, BestBy, Criterion, metric_to_choose_by


def after(best: Best, *values: float, keep: int = 1) -> Best:
    for step, value in enumerate(values, start=1):
        best = best.after(step, value, keep)
    return best


@pytest.mark.parametrize(
    ("metric", "values", "best_first", "waited"),
    [
        ("dev_bleu", (20, 30, 25), [2, 3, 1], 1),
        ("dev_nll", (2.0, 3.0, 2.5), [1, 3, 2], 2),
        ("dev_bleu", (5, 5, 5), [3, 2, 1], 2),  # of equals the later is kept, but nothing got better
        ("dev_bleu", (0, 0, 0), [3, 2, 1], 0),  # nothing is learnt yet: waiting has not begun
        ("dev_bleu", (0, 7, 6), [2, 3, 1], 1),
        ("dev_bleu", (float("nan"), 10, float("inf")), [2], 1),
    ],
)
def test_the_best_steps_come_first(metric: str, values: tuple[float, ...], best_first: list[int], waited: int) -> None:
    empty = Best(Criterion(metric, {"num_pairs": 9}))
    best = after(empty, *values, keep=3)
    assert best.steps == best_first
    assert best.waited == waited
    assert after(empty, *values, keep=2).steps == best_first[:2]


def test_a_checkpoint_remembers_it() -> None:
    best = after(Best(Criterion("dev_bleu", {"num_sentences": 5, "identifier": "profile"})), 20.1, 30.2, 25.3, keep=2)
    assert Best.from_json(json.loads(json.dumps(asdict(best)))) == best
    assert Best.from_json(json.loads(json.dumps(asdict(Best())))) == Best()


@pytest.mark.parametrize(
    ("best_by", "measured", "chosen"),
    [
        ("auto", ["dev_nll", "dev_bleu", "dev_chrf"], "dev_bleu"),
        ("auto", ["dev_nll", "zero_shot_language_accuracy"], "dev_nll"),
        ("auto", [], None),
        ("dev_chrf", ["dev_bleu", "dev_chrf"], "dev_chrf"),
        (None, ["dev_bleu"], None),
    ],
)
def test_what_the_best_is_told_by(best_by: BestBy | None, measured: list[str], chosen: str | None) -> None:
    assert metric_to_choose_by(best_by, measured, None) == chosen


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(ManyglotError, match=r"best_by: dev_bleu needs .*sentences above 0\. Here, dev_nll can"):
        metric_to_choose_by("dev_bleu", ["dev_nll"], None)
    with pytest.raises(ManyglotError, match=r"patience: nothing tells if .* as training.best_by is null"):
        metric_to_choose_by(None, ["dev_nll"], 3)
    with pytest.raises(ManyglotError, match=r"patience: .* nothing is measured"):
        metric_to_choose_by("auto", [], 3)
