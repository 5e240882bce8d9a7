"""The best steps of a run and the number of validations without improvement."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from manyglot.errors import SettingsError

BestMetric = Literal["auto", "dev_nll", "dev_bleu", "dev_chrf", "zero_shot_language_accuracy", "zero_shot_chrf"]
AUTO_BEST_METRICS = ("dev_bleu", "dev_nll")
"""`auto` selects the first of these metrics that validation computes."""
LOWER_IS_BETTER_METRICS = ("dev_nll",)
UNTRAINED_SCORE = 0.0
"""BLEU, chrF++ or language accuracy of an untrained model. While it is the best score, patience is suspended."""
METRIC_REQUIREMENTS: dict[str, str] = {
    "dev_nll": "dev text of trained directions and validation.num_loss_pairs above 0",
    "dev_bleu": "dev text of trained directions and validation.num_supervised_sentences above 0",
    "dev_chrf": "dev text of trained directions and validation.num_supervised_sentences above 0",
    "zero_shot_language_accuracy": "dev text, zero-shot directions and validation.num_zero_shot_sentences above 0",
    "zero_shot_chrf": "dev references in zero-shot directions and validation.num_zero_shot_sentences above 0",
}
"""What each metric needs, for error messages."""

SampleId = Mapping[str, int | str]
"""Identifies the sample that a metric is computed on: counts and identifiers by name, never prose."""


@dataclass(frozen=True)
class BestStepCriterion:
    """The metric and the sample that select the best step. Scores are comparable only if both are equal."""

    metric: str
    sample_id: SampleId

    @property
    def lower_is_better(self) -> bool:
        """Whether a lower score is better."""
        return self.metric in LOWER_IS_BETTER_METRICS


class StepScore(NamedTuple):
    """The score of a step."""

    step: int
    value: float


@dataclass(frozen=True)
class BestSteps:
    """The best steps of a run, best first; the later step wins a tie. Checkpoints store them."""

    criterion: BestStepCriterion | None = None
    """What the scores measure; None if no metric selects the best step."""
    scores: tuple[StepScore, ...] = ()
    num_validations_without_improvement: int = 0
    """Validations since the last improvement. Counting starts once a score differs from that of an untrained model."""

    @property
    def steps(self) -> list[int]:
        """The steps whose checkpoints must be kept."""
        return [score.step for score in self.scores]

    def with_validation(self, step: int, value: float, num_kept: int) -> BestSteps:
        """Return a copy with one more validation and the `num_kept` best steps. Non-finite scores never improve."""
        if not math.isfinite(value):
            return BestSteps(self.criterion, self.scores, self.num_validations_without_improvement + 1)
        is_better = not self.scores or self._sort_key(value) < self._sort_key(self.scores[0].value)
        is_untrained = self.scores and self.scores[0].value == UNTRAINED_SCORE
        scores = sorted([*self.scores, StepScore(step, value)], key=lambda s: (self._sort_key(s.value), -s.step))
        return BestSteps(
            self.criterion,
            tuple(scores[:num_kept]),
            0 if is_better or is_untrained else self.num_validations_without_improvement + 1,
        )

    def _sort_key(self, value: float) -> float:
        return value if self.criterion is not None and self.criterion.lower_is_better else -value

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> BestSteps:
        """Restore best steps from the dict that `dataclasses.asdict` makes."""
        criterion = None if values["criterion"] is None else BestStepCriterion(**values["criterion"])
        return cls(
            criterion,
            tuple(StepScore(*score) for score in values["scores"]),
            values["num_validations_without_improvement"],
        )


def resolve_best_metric(
    best_metric: BestMetric | None, available_metrics: Collection[str], patience: int | None
) -> str | None:
    """Resolve `auto` to a metric, or None; raise an error if it cannot be computed or patience has no metric."""
    if best_metric is not None and best_metric != "auto" and best_metric not in available_metrics:
        available = ", ".join(available_metrics) or "none"
        requirements = METRIC_REQUIREMENTS[best_metric]
        raise SettingsError(
            f"training.best_metric: {best_metric} needs {requirements}. Available metrics: {available}."
        )
    resolved = (
        next((name for name in AUTO_BEST_METRICS if name in available_metrics), None)
        if best_metric == "auto"
        else best_metric
    )
    if patience is not None and resolved is None:
        reason = "training.best_metric is null" if best_metric is None else "validation computes no metric"
        raise SettingsError(
            f"training.patience: early stopping needs a metric, but {reason}. Set training.patience to null."
        )
    return resolved
