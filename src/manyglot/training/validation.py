"""Validation: evaluates the model on samples of the dev split during training and measures the time this takes.

This module computes the loss. Evaluators that translate are passed in, so training does not depend on decoding.
"""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import torch

from manyglot.batches.array_files import IntArray
from manyglot.batches.loader import BatchLoader, DataPosition, PlannedBatch
from manyglot.config.precision import Precision
from manyglot.corpus.languages import Direction
from manyglot.devices import autocast
from manyglot.model.packing import pack_batch
from manyglot.model.transformer import Transformer
from manyglot.progress import print_status
from manyglot.training.best_steps import (
    CHANCE_SCORES,
    LOSS_METRIC,
    BestMetric,
    BestStepCriterion,
    BestSteps,
    SampleId,
    resolve_best_metric,
)
from manyglot.training.loss import sentence_nll_and_token_counts

MAX_TIME_SHARE = 0.1
"""If validation takes a larger share of the run time, a message advises how to make it cheaper."""
PROGRESS_LABELS = {
    "dev_nll": "dev",
    "dev_bleu": "BLEU",
    "dev_chrf": "chrF++",
    "zero_shot_language_accuracy": "zero-shot LangAcc",
    "zero_shot_chrf": "zero-shot chrF++",
}
"""Labels of the metrics beside the progress bar."""


class DevEvaluator(Protocol):
    """Evaluates a model on a fixed sample of the dev split."""

    metric_names: Sequence[str]
    """The metrics it computes."""
    sample_id: SampleId
    """Identifies the sample. It is stored in checkpoints and compared when a run resumes."""
    cost_setting: str
    """The setting to lower to make the evaluation cheaper."""

    def describe_dev_sample(self) -> str:
        """Describe the sample for a message; never stored or compared."""

    def __call__(self, model: Transformer) -> tuple[Mapping[str, float], Mapping[Direction, Mapping[str, float]]]:
        """Return the metrics by name, and the metrics of each direction."""


class Validator:
    """Runs all evaluators, resolves the metric that selects the best step, and measures the time spent."""

    def __init__(
        self, evaluators: Sequence[DevEvaluator], best_metric: BestMetric | None, patience: int | None
    ) -> None:
        self.evaluators = evaluators
        available_metrics = [name for evaluator in evaluators for name in evaluator.metric_names]
        self.best_metric = resolve_best_metric(best_metric, available_metrics, patience)
        """The metric that selects the best step; None if the last step becomes the model."""
        self.criterion = _make_criterion(self.best_metric, evaluators)
        """The metric together with its sample."""
        self.start_time, self.num_validations, self.has_warned_of_cost = time.monotonic(), 0, False
        self.seconds_by_evaluator = [0.0 for _ in evaluators]

    @property
    def time_share(self) -> float:
        """The fraction of the run time spent on validation, since this process started training."""
        return sum(self.seconds_by_evaluator) / (time.monotonic() - self.start_time)

    def describe_metrics(self) -> str:
        """Describe the metrics, their samples and the metric that selects the best step."""
        parts = [f"{', '.join(e.metric_names)} on {e.describe_dev_sample()}" for e in self.evaluators]
        return f"{'; '.join(parts) or 'no metrics'}. {self._describe_selection()}."

    def _describe_selection(self) -> str:
        if self.criterion is None:
            return "The last step becomes the model"
        metric = self.criterion.metric
        needs_loss = self.criterion.loss_sample_id is not None
        loss = f", or {LOSS_METRIC} up to a {metric} of {CHANCE_SCORES[metric]:g}" if needs_loss else ""
        return f"{metric} selects the best step{loss}"

    def to_dict(self, validate_every: int) -> dict[str, Any]:
        """Return the metrics, their samples and the best metric as JSON values; `description` is free text."""
        evaluators = [
            {"metrics": list(e.metric_names), "sample": dict(e.sample_id), "description": e.describe_dev_sample()}
            for e in self.evaluators
        ]
        return {"validate_every": validate_every, "best_metric": self.best_metric, "evaluators": evaluators}

    def resume_best_steps(self, best_steps: BestSteps, validate_every: int) -> BestSteps:
        """Announce the validation. Return the best steps so far whose scores remain comparable with the next ones."""
        if self.evaluators:
            print_status(f"Validation every {validate_every:,} steps: {self.describe_metrics()}")
        self.start_time = time.monotonic()
        comparable, was = best_steps.comparable_under(self.criterion), best_steps.criterion
        if was is not None and not comparable.scores and comparable != best_steps:
            samples = {was.metric: was.sample_id, LOSS_METRIC: was.loss_sample_id}
            described = [f"{name} on {_format_sample_id(sample)}" for name, sample in samples.items() if sample]
            print_status(
                f"The validation metric or its sample changed (was {'; '.join(described)}); "
                f"best-step tracking restarts."
            )
        return comparable

    def __call__(self, model: Transformer) -> dict[str, Any]:
        """Evaluate the model. Return the metrics by name, the time spent and the metrics of each direction."""
        scores: dict[str, float] = {}
        directions: dict[str, dict[str, float]] = defaultdict(dict)
        seconds_before = sum(self.seconds_by_evaluator)
        torch.manual_seed(0)  # for random languages in guidance; training sets a seed for each batch
        model.eval()
        with torch.inference_mode():
            for index, evaluator in enumerate(self.evaluators):
                start = time.monotonic()
                means, by_direction = evaluator(model)
                self.seconds_by_evaluator[index] += time.monotonic() - start
                scores.update(means)
                for direction, values in by_direction.items():
                    directions[direction.as_setting()].update(values)
        model.train()
        self.num_validations += 1
        is_first = self.num_validations == 1  # it takes longer, because an untrained model generates long outputs
        if self.time_share > MAX_TIME_SHARE and not is_first and not self.has_warned_of_cost:
            self.has_warned_of_cost = True
            print_status(f"Validation takes {self.time_share:.0%} of the run time. {self._cost_advice()}")
        cost = {"seconds": sum(self.seconds_by_evaluator) - seconds_before, "share": self.time_share}
        return {**scores, "validation": cost, "directions": directions}

    def ranking_values(self, scores: Mapping[str, Any]) -> tuple[float, float]:
        """Return the scores that rank a step, the best metric and the loss; NaN if there is none."""
        value, loss = (float(scores.get(name, math.nan)) for name in (self.best_metric or "", LOSS_METRIC))
        return value, loss

    def report_time(self) -> None:
        """Report the time spent on validation."""
        if self.num_validations:
            needs_advice = self.time_share > MAX_TIME_SHARE and not self.has_warned_of_cost
            advice = f" {self._cost_advice()}" if needs_advice else ""
            seconds = sum(self.seconds_by_evaluator)
            print_status(f"Validation took {seconds:.0f} s, {self.time_share:.1%} of the run time.{advice}")

    def _cost_advice(self) -> str:
        _, slowest = max(zip(self.seconds_by_evaluator, self.evaluators, strict=True), key=lambda pair: pair[0])
        return f"To make it cheaper, lower {slowest.cost_setting} or raise training.validate_every."


def _make_criterion(metric: str | None, evaluators: Sequence[DevEvaluator]) -> BestStepCriterion | None:
    """Combine the metric with the samples of the evaluators that compute it and the loss."""
    sample_ids = {name: e.sample_id for e in evaluators for name in e.metric_names}
    if metric is None:
        return None
    return BestStepCriterion(metric, sample_ids[metric], None if metric == LOSS_METRIC else sample_ids.get(LOSS_METRIC))


def _format_sample_id(sample_id: SampleId) -> str:
    """Describe an earlier sample from its stored identifier."""
    return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in sample_id.items())


def format_validation_note(scores: Mapping[str, Any], best_steps: BestSteps) -> str:
    """Format the latest scores and the best score for the progress bar."""
    parts = [f"{label} {scores[name]:.2f}" for name, label in PROGRESS_LABELS.items() if name in scores]
    if best_steps.scores:
        best = best_steps.scores[0]
        parts.append(f"best {PROGRESS_LABELS[best.metric]} {best.value:.2f} at {best.step:,}")
    return ", ".join(parts)


class DevLossEvaluator:
    """Computes the mean negative log-likelihood per target token on a sample of the dev split."""

    metric_names: Sequence[str] = (LOSS_METRIC,)
    cost_setting = "validation.num_loss_pairs"

    def __init__(self, loader: BatchLoader, num_pairs: int, device: torch.device, precision: Precision) -> None:
        self.directions = loader.directions
        self.device, self.precision = device, precision
        self.batches: list[tuple[PlannedBatch, IntArray]] = []
        index_of = {direction: index for index, direction in enumerate(self.directions)}
        num_sampled_pairs = 0
        for batch, next_position in loader.iter_planned_batches(DataPosition()):
            self.batches.append((batch, np.array([index_of[Direction(*pair)] for *pair, _ in batch.text_locations()])))
            num_sampled_pairs += len(batch.source_indices)
            if num_sampled_pairs >= num_pairs or next_position.epoch > 0:
                break
        self.sample_id: SampleId = {"num_pairs": num_sampled_pairs}

    def describe_dev_sample(self) -> str:
        """Describe the sample for a message."""
        return f"{self.sample_id['num_pairs']:,} sentence pairs"

    def __call__(self, model: Transformer) -> tuple[Mapping[str, float], Mapping[Direction, Mapping[str, float]]]:
        """Return dev_nll over all tokens, and the nll of each direction."""
        nll_D, tokens_D = np.zeros(len(self.directions)), np.zeros(len(self.directions))
        for batch, direction_B in self.batches:
            with autocast(self.device, self.precision):
                nll_B, tokens_B = sentence_nll_and_token_counts(model, pack_batch(batch.load()).to(self.device))
            np.add.at(nll_D, direction_B, nll_B.double().cpu().numpy())
            np.add.at(tokens_D, direction_B, tokens_B.cpu().numpy())
        totals = zip(self.directions, nll_D.tolist(), tokens_D.tolist(), strict=True)
        by_direction = {direction: {"nll": nll / tokens} for direction, nll, tokens in totals if tokens}
        return {LOSS_METRIC: float(nll_D.sum() / tokens_D.sum())}, by_direction
