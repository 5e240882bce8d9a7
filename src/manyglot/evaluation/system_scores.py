"""The systems of a comparison and their scores in a group of directions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, stdev

import numpy as np

from manyglot.corpus.languages import Direction
from manyglot.errors import ManyglotError
from manyglot.evaluation.bootstrap import BootstrapDifferences, Significance, bootstrap_bleu_difference
from manyglot.evaluation.results import Evaluation
from manyglot.evaluation.sentence_statistics import SentenceStatistics

SIGNIFICANCE_LEVEL = 0.05
"""Differences with a lower p-value are called significant."""


@dataclass(frozen=True)
class System:
    """One row of a table: a name, and one run per seed."""

    name: str
    runs: Sequence[Evaluation]


@dataclass(frozen=True)
class MeanStd:
    """A mean over runs; `std` is the sample standard deviation, or None for a single run."""

    mean: float
    std: float | None = None

    @classmethod
    def from_values(cls, values: Sequence[float]) -> MeanStd:
        """Compute mean and standard deviation, one value per run."""
        return cls(fmean(values), stdev(values) if len(values) > 1 else None)


@dataclass(frozen=True)
class SegmentMetricScore:
    """The mean score of one system by another metric, such as COMET, in one group of directions."""

    num_directions: int
    """Number of directions in which all systems have scores of this metric."""
    mean: MeanStd
    significance: Significance | None = None
    """Significance of the difference from the baseline; None without a bootstrap."""
    num_significantly_better: int | None = None
    num_significantly_worse: int | None = None


@dataclass(frozen=True)
class DirectionGroupScore:
    """The scores of one system in one group of directions."""

    num_directions: int
    bleu: MeanStd
    language_accuracy: MeanStd | None
    win_rate: MeanStd | None
    """Percentage of directions won against the baseline; None for the baseline itself."""
    significance: Significance | None = None
    """Significance of the difference in mean BLEU from the baseline; None without a bootstrap."""
    num_significantly_better: int | None = None
    """Number of directions with significantly higher BLEU than the baseline."""
    num_significantly_worse: int | None = None
    metrics: Mapping[str, SegmentMetricScore] = field(default_factory=dict)
    """Scores of other metrics, by name."""


def bootstrap_bleu(
    system: System, baseline: System, direction: Direction, num_bootstrap_samples: int, seed: int = 1
) -> BootstrapDifferences:
    """Bootstrap the BLEU difference from the baseline in one direction."""
    ours, theirs = (statistics_in_shared_order(each, direction) for each in (system, baseline))
    keys_N = theirs.fingerprints_N if theirs.row_numbers_N is None else theirs.row_numbers_N
    return bootstrap_bleu_difference(ours.bleu_counts_NS, theirs.bleu_counts_NS, keys_N, num_bootstrap_samples, seed)


def statistics_in_shared_order(system: System, direction: Direction) -> SentenceStatistics:
    """Return statistics sorted so that the sentences of all runs align; a system is represented by its first run."""
    run = system.runs[0]
    if direction not in run.statistics:
        raise ManyglotError(
            f"{system.name} has no statistics.npz for {direction}, which significance tests need. Evaluate it again."
        )
    statistics = run.statistics[direction]
    return statistics.select_sentences(np.argsort(statistics.fingerprints_N, kind="stable"))
