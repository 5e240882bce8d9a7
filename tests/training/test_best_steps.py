from __future__ import annotations

import json
from dataclasses import asdict

import pytest

from manyglot.errors import ManyglotError
from manyglot.training.best_steps import BestMetric, BestStepCriterion, BestSteps, resolve_best_metric


def after_validations(best: BestSteps, *values: float, keep: int = 1) -> BestSteps:
    for step, value in enumerate(values, start=1):
        best = best.with_validation(step, value, keep)
    return best


@pytest.mark.parametrize(
    ("metric", "values", "best_first", "num_without_improvement"),
    [
        ("dev_bleu", (20, 30, 25), [2, 3, 1], 1),
        ("dev_nll", (2.0, 3.0, 2.5), [1, 3, 2], 2),
        ("dev_bleu", (5, 5, 5), [3, 2, 1], 2),  # the later step wins a tie, but a tie is no improvement
        ("dev_bleu", (0, 0, 0), [3, 2, 1], 0),  # untrained: patience does not count yet
        ("dev_bleu", (0, 7, 6), [2, 3, 1], 1),
        ("dev_bleu", (float("nan"), 10, float("inf")), [2], 1),
    ],
)
def test_best_steps_are_sorted(
    metric: str, values: tuple[float, ...], best_first: list[int], num_without_improvement: int
) -> None:
    empty = BestSteps(BestStepCriterion(metric, {"num_pairs": 9}))
    best = after_validations(empty, *values, keep=3)
    assert best.steps == best_first
    assert best.num_validations_without_improvement == num_without_improvement
    assert after_validations(empty, *values, keep=2).steps == best_first[:2]


def test_best_steps_survive_a_json_round_trip() -> None:
    best = after_validations(
        BestSteps(BestStepCriterion("dev_bleu", {"num_sentences": 5, "identifier": "profile"})),
        20.1,
        30.2,
        25.3,
        keep=2,
    )
    assert BestSteps.from_dict(json.loads(json.dumps(asdict(best)))) == best
    assert BestSteps.from_dict(json.loads(json.dumps(asdict(BestSteps())))) == BestSteps()


@pytest.mark.parametrize(
    ("best_metric", "measured", "chosen"),
    [
        ("auto", ["dev_nll", "dev_bleu", "dev_chrf"], "dev_bleu"),
        ("auto", ["dev_nll", "zero_shot_language_accuracy"], "dev_nll"),
        ("auto", [], None),
        ("dev_chrf", ["dev_bleu", "dev_chrf"], "dev_chrf"),
        (None, ["dev_bleu"], None),
    ],
)
def test_auto_selects_an_available_metric(
    best_metric: BestMetric | None, measured: list[str], chosen: str | None
) -> None:
    assert resolve_best_metric(best_metric, measured, None) == chosen


def test_unavailable_metrics_are_refused() -> None:
    with pytest.raises(ManyglotError, match=r"best_metric: dev_bleu needs .*above 0\. Available metrics: dev_nll"):
        resolve_best_metric("dev_bleu", ["dev_nll"], None)
    with pytest.raises(ManyglotError, match=r"patience: .* needs a metric, but training.best_metric is null"):
        resolve_best_metric(None, ["dev_nll"], 3)
    with pytest.raises(ManyglotError, match=r"patience: .* validation computes no metric"):
        resolve_best_metric("auto", [], 3)
