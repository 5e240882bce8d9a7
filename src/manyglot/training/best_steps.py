"""Which steps of a run are its best, and how long ago it was last better."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from manyglot.errors import SettingsError

BestMetric = Literal["auto", "dev_nll", "dev_bleu", "dev_chrf", "zero_shot_language_accuracy", "zero_shot_chrf"]
AUTO_BEST_METRICS = ("dev_bleu", "dev_nll")
"""What `auto` takes: the first of these that is measured."""
LOWER_IS_BETTER_METRICS = ("dev_nll",)
UNTRAINED_SCORE = 0.0
"""BLEU, chrF++ and language accuracy before a model has learnt anything; to wait begins later."""
METRIC_REQUIREMENTS: dict[str, str] = {
    "dev_nll": "dev text of trained directions and validation.num_loss_pairs above 0",
    "dev_bleu": "dev text of trained directions and validation.num_supervised_sentences above 0",
    "dev_chrf": "dev text of trained directions and validation.num_supervised_sentences above 0",
    "zero_shot_language_accuracy": "dev text, zero-shot directions and validation.num_zero_shot_sentences above 0",
    "zero_shot_chrf": "dev references in zero-shot directions and validation.num_zero_shot_sentences above 0",
}
"""For who asks for what is not measured."""

SampleId = Mapping[str, int | str]
"""What identifies the sample that a metric is measured on: names with counts and identifiers, never prose."""


@dataclass(frozen=True)
class BestStepCriterion:
    """What selects the best step: a metric and the sample it is measured on. Scores compare only if both are equal."""

    metric: str
    sample_id: SampleId

    @property
    def lower_is_better(self) -> bool:
        """Whether a lower score is the better one."""
        return self.metric in LOWER_IS_BETTER_METRICS


class StepScore(NamedTuple):
    """What was measured at a step."""

    step: int
    value: float


@dataclass(frozen=True)
class BestSteps:
    """The best steps of a run, best first; of equals the later. A checkpoint holds it, so a run goes on with it."""

    criterion: BestStepCriterion | None = None
    """What the scores are of; None where no metric selects the best step."""
    scores: tuple[StepScore, ...] = ()
    num_validations_without_improvement: int = 0
    """Validations since the last that was better than all before it; they count from the first that was not zero."""

    @property
    def steps(self) -> list[int]:
        """The steps whose checkpoints are to be kept."""
        return [score.step for score in self.scores]

    def with_validation(self, step: int, value: float, num_kept: int) -> BestSteps:
        """The same with one more validation, of which the best `num_kept` are remembered."""
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
        """Read what `dataclasses.asdict` makes of it."""
        criterion = None if values["criterion"] is None else BestStepCriterion(**values["criterion"])
        return cls(
            criterion,
            tuple(StepScore(*score) for score in values["scores"]),
            values["num_validations_without_improvement"],
        )


def resolve_best_metric(
    best_metric: BestMetric | None, available_metrics: Collection[str], patience: int | None
) -> str | None:
    """The metric that decides what is best, if there is one; refuse one that is not measured."""
    if best_metric is not None and best_metric != "auto" and best_metric not in available_metrics:
        available = ", ".join(available_metrics) or "nothing"
        requirements = METRIC_REQUIREMENTS[best_metric]
        raise SettingsError(
            f"training.best_metric: {best_metric} needs {requirements}. Here, {available} can be measured."
        )
    resolved = (
        next((name for name in AUTO_BEST_METRICS if name in available_metrics), None)
        if best_metric == "auto"
        else best_metric
    )
    if patience is not None and resolved is None:
        reason = "training.best_metric is null" if best_metric is None else "nothing is measured"
        raise SettingsError(
            f"training.patience: nothing tells if the model gets better, as {reason}. Use null here too."
        )
    return resolved
