"""The best steps of a run and the number of validations without improvement."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

from manyglot.errors import SettingsError

BestMetric = Literal["auto", "dev_nll", "dev_bleu", "dev_chrf", "zero_shot_language_accuracy", "zero_shot_chrf"]
AUTO_BEST_METRICS = ("dev_bleu", "dev_nll")
"""`auto` selects the first of these metrics that validation computes."""
LOSS_METRIC = "dev_nll"
"""Ranks the steps whose score of the best metric is within chance. It is the only metric of which less is better."""
CHANCE_SCORES = {"dev_bleu": 2.0, "dev_chrf": 10.0, "zero_shot_chrf": 10.0, "zero_shot_language_accuracy": 0.0}
"""A score up to this value is within chance, so it ranks no step: on a small dev sample, unrelated sentences score up
to 2 BLEU and 10 chrF++ (docs/validation.md). An untrained model has a language accuracy of 0."""
METRIC_REQUIREMENTS: dict[str, str] = {
    "dev_nll": "dev text of trained directions and validation.num_loss_pairs above 0",
    "dev_bleu": "dev text of trained directions and validation.num_supervised_sentences above 0",
    "dev_chrf": "dev text of trained directions and validation.num_supervised_sentences above 0",
    "zero_shot_language_accuracy": "dev text, zero-shot directions and validation.num_zero_shot_sentences above 0",
    "zero_shot_chrf": "dev references in zero-shot directions and validation.num_zero_shot_sentences above 0",
}
"""What each metric needs, for error messages."""

UNRANKED = (2, 0.0)
"""The sort key of all steps within chance that have no loss."""

SampleId = Mapping[str, int | str]
"""Identifies the sample that a metric is computed on: counts and identifiers by name, never prose."""


@dataclass(frozen=True)
class BestStepCriterion:
    """The metric and the samples that select the best step. Scores are comparable only on the same sample."""

    metric: str
    sample_id: SampleId
    loss_sample_id: SampleId | None = None
    """The sample of `LOSS_METRIC`; None if it is not computed, or is the metric itself."""

    def is_above_chance(self, value: float) -> bool:
        """Whether a score of the metric is above chance. A loss always is."""
        return self.metric == LOSS_METRIC or value > CHANCE_SCORES[self.metric]

    def sample_id_of(self, metric: str) -> SampleId | None:
        """Return the sample that a score of a step was computed on."""
        return self.sample_id if metric == self.metric else self.loss_sample_id


class StepScore(NamedTuple):
    """The score that ranks a step: the loss if the score of the best metric is within chance and there is a loss."""

    step: int
    metric: str
    value: float


@dataclass(frozen=True)
class BestSteps:
    """The best steps of a run, best first; the later step wins a tie. Checkpoints store them.

    Steps above chance rank first, by the best metric. The others follow, by their loss. Steps within chance that have
    no loss come last, and all of them tie.
    """

    criterion: BestStepCriterion | None = None
    """What the scores measure; None if no metric selects the best step."""
    scores: tuple[StepScore, ...] = ()
    num_validations_without_improvement: int = 0
    """Validations since the last improvement. Without a loss, counting starts once a score is above chance."""

    @property
    def steps(self) -> list[int]:
        """The steps whose checkpoints must be kept."""
        return [score.step for score in self.scores]

    def with_validation(self, step: int, value: float, loss: float, num_kept: int) -> BestSteps:
        """Return a copy with one more validation and the `num_kept` best steps.

        `value` is the score of the best metric, and a step whose value is not finite never improves. `loss` is NaN if
        validation does not compute it.
        """
        if self.criterion is None or not math.isfinite(value):
            return replace(self, num_validations_without_improvement=self.num_validations_without_improvement + 1)
        ranks_by_loss = not self.criterion.is_above_chance(value) and math.isfinite(loss)
        score = StepScore(step, LOSS_METRIC, loss) if ranks_by_loss else StepScore(step, self.criterion.metric, value)
        is_better = not self.scores or self._sort_key(score) < self._sort_key(self.scores[0])
        is_unranked = bool(self.scores) and self._sort_key(self.scores[0]) == UNRANKED
        scores = sorted([*self.scores, score], key=lambda s: (self._sort_key(s), -s.step))
        return BestSteps(
            self.criterion,
            tuple(scores[:num_kept]),
            0 if is_better or is_unranked else self.num_validations_without_improvement + 1,
        )

    def comparable_under(self, criterion: BestStepCriterion | None) -> BestSteps:
        """Return the best steps under another criterion: those whose scores are on the same sample of the same metric.

        If the best step is not among them, tracking starts again.
        """
        if criterion == self.criterion:
            return self
        if criterion is None or self.criterion is None:
            return BestSteps(criterion)
        if (criterion.metric, criterion.sample_id) != (self.criterion.metric, self.criterion.sample_id):
            return BestSteps(criterion)
        above_chance = tuple(score for score in self.scores if self._sort_key(score)[0] == 0)
        return BestSteps(criterion, above_chance, self.num_validations_without_improvement if above_chance else 0)

    def _sort_key(self, score: StepScore) -> tuple[int, float]:
        """Return the rank of a score; less is better."""
        assert self.criterion is not None
        if score.metric == self.criterion.metric and self.criterion.is_above_chance(score.value):
            return 0, score.value if score.metric == LOSS_METRIC else -score.value
        return (1, score.value) if score.metric == LOSS_METRIC else UNRANKED

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
