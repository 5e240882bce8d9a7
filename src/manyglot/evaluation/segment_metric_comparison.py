"""Comparison of systems by the sentence scores of other metrics, such as COMET."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean

from manyglot.corpus.languages import Direction
from manyglot.evaluation.bootstrap import BootstrapDifferences, bootstrap_mean_difference, significance_of_mean
from manyglot.evaluation.results import Evaluation, shared_segment_metrics
from manyglot.evaluation.scored_system import SegmentMetric
from manyglot.evaluation.system_scores import (
    SIGNIFICANCE_LEVEL,
    MeanStd,
    SegmentMetricScore,
    System,
    statistics_in_shared_order,
)


@dataclass(frozen=True)
class SegmentMetricComparison:
    """Other metrics of some systems, and the bootstrap samples of their differences from the baseline."""

    metrics: Mapping[str, SegmentMetric]
    directions: Mapping[str, set[Direction]]
    """By metric, the directions in which all systems that have it have its scores."""
    differences: Mapping[str, Mapping[str, Mapping[Direction, BootstrapDifferences]]] = field(default_factory=dict)
    """By metric, system name and direction; empty without a bootstrap."""

    @classmethod
    def of(
        cls, systems: Sequence[System], baseline: System | None, num_bootstrap_samples: int, seed: int
    ) -> SegmentMetricComparison:
        """Find the metrics of the systems, and resample their differences from the baseline."""
        runs = [run for system in systems for run in system.runs]
        metrics = shared_segment_metrics(runs)
        directions = {name: _directions_with_scores(runs, name) for name in metrics}
        if baseline is None or not num_bootstrap_samples:
            return cls(metrics, directions)
        differences = {
            name: _bootstrap_metric(name, systems, baseline, directions[name], num_bootstrap_samples, seed)
            for name in metrics
        }
        return cls(metrics, directions, differences)

    def scores(self, system: System, members: Sequence[Direction]) -> dict[str, SegmentMetricScore]:
        """Return the scores of a system in a group of directions, by metric."""
        return {
            name: _score_segment_metric(name, system, scored, metric, self.differences.get(name, {}).get(system.name))
            for name, metric in self.metrics.items()
            if (scored := [direction for direction in members if direction in self.directions[name]])
            and all(name in run.metrics for run in system.runs)
        }


def _directions_with_scores(runs: Sequence[Evaluation], metric: str) -> set[Direction]:
    """Return the directions in which all runs that have a metric have its scores."""
    directions = [{d.direction for d in run.directions if metric in d.metrics} for run in runs if metric in run.metrics]
    return set.intersection(*directions)


def _bootstrap_metric(
    metric: str,
    systems: Sequence[System],
    baseline: System,
    directions: Iterable[Direction],
    num_bootstrap_samples: int,
    seed: int,
) -> dict[str, dict[Direction, BootstrapDifferences]]:
    """Bootstrap the difference in a metric's mean from the baseline, for every other system that has the metric."""
    if metric not in baseline.runs[0].metrics:
        return {}
    differences: dict[str, dict[Direction, BootstrapDifferences]] = {}
    for system in (each for each in systems if each is not baseline and metric in each.runs[0].metrics):
        differences[system.name] = {}
        for direction in sorted(directions):
            ours, theirs = (statistics_in_shared_order(either, direction) for either in (system, baseline))
            assert ours.metric_scores_N is not None
            assert theirs.metric_scores_N is not None
            keys_N = theirs.fingerprints_N if theirs.row_numbers_N is None else theirs.row_numbers_N
            differences[system.name][direction] = bootstrap_mean_difference(
                ours.metric_scores_N[metric], theirs.metric_scores_N[metric], keys_N, num_bootstrap_samples, seed
            )
    return differences


def _score_segment_metric(
    name: str,
    system: System,
    directions: Sequence[Direction],
    metric: SegmentMetric,
    differences: Mapping[Direction, BootstrapDifferences] | None,
) -> SegmentMetricScore:
    tables = [{d.direction: d.metrics for d in run.directions} for run in system.runs]
    means = [fmean(table[d][name] for d in directions) for table in tables]
    score = SegmentMetricScore(len(directions), MeanStd.from_values(means))
    if differences is None:
        return score
    sign = -1 if metric.lower_is_better else 1
    gains = [
        sign * s.difference for d in directions if (s := differences[d].significance()).p_value < SIGNIFICANCE_LEVEL
    ]
    return replace(
        score,
        significance=significance_of_mean([differences[d] for d in directions]),
        num_significantly_better=sum(gain > 0 for gain in gains),
        num_significantly_worse=sum(gain < 0 for gain in gains),
    )
