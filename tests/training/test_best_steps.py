from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from itertools import zip_longest

import pytest

from manyglot.errors import ManyglotError
from manyglot.training.best_steps import BestMetric, BestStepCriterion, BestSteps, resolve_best_metric

NAN = float("nan")
SAMPLE, LOSS_SAMPLE = {"num_sentences": 5}, {"num_pairs": 9}
BLEU_AND_LOSS = BestStepCriterion("dev_bleu", SAMPLE, LOSS_SAMPLE)


def after_validations(best: BestSteps, *values: float, losses: Sequence[float] = (), keep: int = 1) -> BestSteps:
    for step, (value, loss) in enumerate(zip_longest(values, losses, fillvalue=NAN), start=1):
        best = best.with_validation(step, value, loss, keep)
    return best


@pytest.mark.parametrize(
    ("metric", "values", "best_first", "num_without_improvement"),
    [
        ("dev_bleu", (20, 30, 25), [2, 3, 1], 1),
        ("dev_nll", (2.0, 3.0, 2.5), [1, 3, 2], 2),
        ("dev_bleu", (5, 5, 5), [3, 2, 1], 2),  # the later step wins a tie, but a tie is no improvement
        ("dev_bleu", (0, 0, 0), [3, 2, 1], 0),  # untrained: patience does not count yet
        ("dev_bleu", (0.18, 0.17, 0.16), [3, 2, 1], 0),  # within chance: the later step is better trained
        ("dev_bleu", (0, 7, 6), [2, 3, 1], 1),
        ("zero_shot_language_accuracy", (0, 1, 0.5), [2, 3, 1], 1),
        ("dev_bleu", (NAN, 10, float("inf")), [2], 1),
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


@pytest.mark.parametrize(
    ("values", "losses", "best_first", "num_without_improvement"),
    [
        ((0.18, 0.17), (7.0, 5.0), [2, 1], 0),
        ((0.18, 0.17, 0.3), (7.0, 5.0, 6.0), [2, 3, 1], 1),
        ((1.9, 2.1, 1.9), (7.0, 6.0, 5.0), [2, 3, 1], 1),  # a score above chance outranks every loss
        ((30, 20, 0.5), (3.0, 2.0, 1.0), [1, 2, 3], 2),  # the loss plays no role above chance
        ((0.1, 0.2, 0.3), (NAN, 5.0, NAN), [2, 3, 1], 1),
        ((0.1, 0.1, 0.1), (5.0, 5.0, 6.0), [2, 1, 3], 2),
    ],
)
def test_the_loss_ranks_steps_within_chance(
    values: tuple[float, ...], losses: tuple[float, ...], best_first: list[int], num_without_improvement: int
) -> None:
    best = after_validations(BestSteps(BLEU_AND_LOSS), *values, losses=losses, keep=3)
    assert best.steps == best_first
    assert best.num_validations_without_improvement == num_without_improvement
    for score in best.scores:
        by_loss = values[score.step - 1] <= 2 and losses[score.step - 1] > 0
        assert score.metric == ("dev_nll" if by_loss else "dev_bleu")
        assert score.value == (losses if by_loss else values)[score.step - 1]
    for keep in (1, 2):
        fewer = after_validations(BestSteps(BLEU_AND_LOSS), *values, losses=losses, keep=keep)
        assert fewer.scores == best.scores[:keep]
        assert fewer.num_validations_without_improvement == num_without_improvement


@pytest.mark.parametrize(
    ("criterion", "values", "comparable_steps", "num_without_improvement"),
    [
        (BLEU_AND_LOSS, (0.5, 0.4, 0.3), [3, 2, 1], 0),
        (BLEU_AND_LOSS, (0.5, 30, 20), [2, 3, 1], 1),
        (BestStepCriterion("dev_bleu", SAMPLE), (0.5, 30, 20), [2, 3], 1),
        (BestStepCriterion("dev_bleu", SAMPLE, {"num_pairs": 8}), (0.5, 30, 20), [2, 3], 1),
        (BestStepCriterion("dev_bleu", SAMPLE, {"num_pairs": 8}), (0.5, 0.4, 0.3), [], 0),
        (BestStepCriterion("dev_bleu", {"num_sentences": 4}, LOSS_SAMPLE), (0.5, 30, 20), [], 0),
        (BestStepCriterion("dev_chrf", SAMPLE, LOSS_SAMPLE), (0.5, 30, 20), [], 0),
        (BestStepCriterion("dev_nll", LOSS_SAMPLE), (0.5, 0.4, 0.3), [], 0),
        (None, (0.5, 30, 20), [], 0),
    ],
)
def test_only_scores_on_the_same_sample_are_compared(
    criterion: BestStepCriterion | None,
    values: tuple[float, ...],
    comparable_steps: list[int],
    num_without_improvement: int,
) -> None:
    before = after_validations(BestSteps(BLEU_AND_LOSS), *values, losses=(3.0, 2.0, 1.0), keep=3)
    best = before.comparable_under(criterion)
    assert best.criterion == criterion
    assert best.steps == comparable_steps
    assert best.num_validations_without_improvement == num_without_improvement


def test_best_steps_survive_a_json_round_trip() -> None:
    best = after_validations(
        BestSteps(BestStepCriterion("dev_bleu", {"num_sentences": 5, "identifier": "profile"}, LOSS_SAMPLE)),
        20.1,
        0.3,
        losses=(3.0, 4.0),
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
