"""Comparison of systems: averages, win rates, means over seeds and significance, as in the paper's tables.

A system is one run, or several runs that differ in their seed; several runs are reported as mean ± standard deviation.
The win rate is the percentage of directions whose BLEU is strictly higher than that of the baseline.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from statistics import fmean
from typing import Any

from manyglot.corpus.languages import Direction
from manyglot.errors import SettingsError, did_you_mean
from manyglot.evaluation.bootstrap import (
    BootstrapDifferences,
    Significance,
    significance_of_mean,
)
from manyglot.evaluation.comparability import (
    check_same_metrics,
    check_same_test_sets,
    restrict_to_common_sentences,
    share_supervision,
)
from manyglot.evaluation.results import (
    DirectionGroup,
    DirectionResult,
    Evaluation,
    mean_ignoring_none,
)
from manyglot.evaluation.run_specs import name_systems, parse_run_folders
from manyglot.evaluation.scored_system import FileOrigin, SegmentMetric
from manyglot.evaluation.segment_metric_comparison import SegmentMetricComparison
from manyglot.evaluation.shared_language_codes import share_language_codes
from manyglot.evaluation.system_scores import (
    SIGNIFICANCE_LEVEL as SIGNIFICANCE_LEVEL,
)
from manyglot.evaluation.system_scores import DirectionGroupScore as DirectionGroupScore
from manyglot.evaluation.system_scores import MeanStd as MeanStd
from manyglot.evaluation.system_scores import System as System
from manyglot.evaluation.system_scores import bootstrap_bleu
from manyglot.progress import progress_bar


@dataclass(frozen=True)
class Comparison:
    """The scores of all systems in all direction groups."""

    baseline: str | None
    central_language: str
    scores_by_system: Mapping[str, Mapping[DirectionGroup, DirectionGroupScore]]
    """By system name and direction group."""
    num_bootstrap_samples: int
    """Number of bootstrap samples; 0 if significance was not tested."""
    significance_by_system: Mapping[str, Mapping[Direction, Significance]]
    """Significance per direction, by system name; empty if significance was not tested."""
    signatures: Sequence[str]
    """The distinct BLEU signatures of all directions."""
    identifier_signature: str
    """Signature of the language identifier that LangAcc was computed with."""
    origins: Mapping[str, FileOrigin] = field(default_factory=dict)
    """By system name, where the translations of other systems come from."""
    metrics: Mapping[str, SegmentMetric] = field(default_factory=dict)
    """Other metrics, by name."""
    metric_significance_by_system: Mapping[str, Mapping[str, Mapping[Direction, Significance]]] = field(
        default_factory=dict
    )
    """Significance per direction, by metric and system name."""

    def to_dict(self) -> dict[str, Any]:
        """Return the comparison as plain values for JSON."""
        return {
            "baseline": self.baseline,
            "central_language": self.central_language,
            "num_bootstrap_samples": self.num_bootstrap_samples,
            "signatures": list(self.signatures),
            "identifier_signature": self.identifier_signature,
            "origins": {name: asdict(origin) for name, origin in self.origins.items()},
            "systems": {
                name: {g: asdict(score) for g, score in row.items()} for name, row in self.scores_by_system.items()
            },
            "metrics": {name: {"lower_is_better": metric.lower_is_better} for name, metric in self.metrics.items()},
            "significance": _significance_records(self.significance_by_system),
            "metric_significance": {
                metric: _significance_records(by_system)
                for metric, by_system in self.metric_significance_by_system.items()
            },
        }


def _significance_records(
    significance_by_system: Mapping[str, Mapping[Direction, Significance]],
) -> dict[str, list[dict[str, Any]]]:
    return {
        name: [{**direction._asdict(), **asdict(each)} for direction, each in by_direction.items()]
        for name, by_direction in significance_by_system.items()
    }


def load_systems(run_specs: Sequence[str], baseline: str | None) -> tuple[list[System], str | None]:
    """Load runs given as `[NAME=]FOLDER[,FOLDER…]`, one folder per seed, and return them with the baseline's name.

    The baseline is either one of the runs, given by name or as in `run_specs`, or a further run, which comes first.
    """
    specs = list(dict.fromkeys(run_specs))
    runs_by_spec = {spec: _load_runs(spec) for spec in specs}
    names = name_systems(specs, _stored_names(runs_by_spec))
    if baseline is not None and baseline not in {*names, *names.values()}:
        if not all(folder.exists() for folder in parse_run_folders(baseline)):
            suggestion = did_you_mean(baseline, names.values())
            raise SettingsError(f"baseline: '{baseline}' is neither a folder nor the name of a run. {suggestion}")
        runs_by_spec = {baseline: _load_runs(baseline), **runs_by_spec}
        names = name_systems([baseline, *specs], _stored_names(runs_by_spec))
    systems = [System(name, runs_by_spec[spec]) for spec, name in names.items()]
    return systems, None if baseline is None else names.get(baseline, baseline)


def _load_runs(spec: str) -> list[Evaluation]:
    return [Evaluation.load(folder) for folder in parse_run_folders(spec)]


def _stored_names(runs_by_spec: Mapping[str, Sequence[Evaluation]]) -> dict[str, str]:
    """Return the names of the systems that `score` has scored."""
    return {spec: runs[0].system.name for spec, runs in runs_by_spec.items() if runs[0].system is not None}


def compare_systems(
    systems: Sequence[System],
    baseline: str | None = None,
    common_test_only: bool = False,
    num_bootstrap_samples: int = 0,
    seed: int = 1,
) -> Comparison:
    """Compare systems with one another and, if given, with the `baseline`, the name of one of them.

    Significance is tested if `num_bootstrap_samples` is above 0. All runs must have the same directions and test sets,
    unless `common_test_only` restricts them to the test sentences they share. Languages that the runs name in different
    styles get the codes of the first run.
    """
    if num_bootstrap_samples and (baseline is None or len(systems) == 1):
        raise SettingsError("Significance needs a baseline (--baseline) and at least one other run. Give both.")
    if 0 < num_bootstrap_samples < 1 / SIGNIFICANCE_LEVEL:
        raise SettingsError(
            f"--significance: {num_bootstrap_samples} samples are too few for p < {SIGNIFICANCE_LEVEL}. "
            f"Use 1000, for example."
        )
    runs = share_language_codes([run for system in systems for run in system.runs])
    systems = _replace_runs(systems, share_supervision(runs))
    runs = [run for system in systems for run in system.runs]
    check_same_metrics(runs)
    if common_test_only:
        systems = _replace_runs(systems, restrict_to_common_sentences(runs))
        runs = [run for system in systems for run in system.runs]
    else:
        check_same_test_sets([(system.name, run) for system in systems for run in system.runs])
    baseline_system = next((system for system in systems if system.name == baseline), None)
    groups = group_directions(runs[0])
    differences = (
        _bootstrap_systems(systems, baseline_system, num_bootstrap_samples, seed)
        if num_bootstrap_samples and baseline_system
        else {}
    )
    segment_metrics = SegmentMetricComparison.of(systems, baseline_system, num_bootstrap_samples, seed)
    scores_by_system = {
        system.name: {
            group: replace(
                _score_group(system, baseline_system, members, differences.get(system.name)),
                metrics=segment_metrics.scores(system, members),
            )
            for group, members in groups.items()
        }
        for system in systems
    }
    return Comparison(
        baseline=baseline,
        central_language=runs[0].central_language or "en",
        scores_by_system=scores_by_system,
        num_bootstrap_samples=num_bootstrap_samples,
        significance_by_system={
            name: {d: resampled.significance() for d, resampled in by_direction.items()}
            for name, by_direction in differences.items()
        },
        signatures=sorted({d.bleu_signature for d in runs[0].directions}),
        identifier_signature=runs[0].identifier_signature,
        origins={s.name: s.runs[0].system.hypotheses for s in systems if s.runs[0].system is not None},
        metrics=segment_metrics.metrics,
        metric_significance_by_system={
            metric: {
                name: {d: resampled.significance() for d, resampled in by_direction.items()}
                for name, by_direction in by_system.items()
            }
            for metric, by_system in segment_metrics.differences.items()
        },
    )


def _replace_runs(systems: Sequence[System], runs: Iterable[Evaluation]) -> list[System]:
    remaining = iter(runs)
    return [replace(system, runs=[next(remaining) for _ in system.runs]) for system in systems]


def _bootstrap_systems(
    systems: Sequence[System], baseline: System, num_bootstrap_samples: int, seed: int
) -> dict[str, dict[Direction, BootstrapDifferences]]:
    """Bootstrap the BLEU difference from the baseline, for every other system and every direction."""
    directions = [result.direction for result in baseline.runs[0].directions]
    others = [system for system in systems if system is not baseline]
    differences: dict[str, dict[Direction, BootstrapDifferences]] = {system.name: {} for system in others}
    with progress_bar("resampling", total=len(others) * len(directions)) as progress:
        for system in others:
            for direction in directions:
                differences[system.name][direction] = bootstrap_bleu(
                    system, baseline, direction, num_bootstrap_samples, seed
                )
                progress.advance()
    return differences


def win_rate(system_scores: Sequence[float], baseline_scores: Sequence[float]) -> float:
    """Return the percentage of directions in which the system scores strictly higher than the baseline."""
    return 100 * fmean(ours > theirs for ours, theirs in zip(system_scores, baseline_scores, strict=True))


def group_directions(run: Evaluation) -> dict[DirectionGroup, list[Direction]]:
    """Return the directions of each nonempty group; the central-language groups exclude zero-shot directions."""
    conditions: dict[DirectionGroup, Callable[[DirectionResult], bool]] = {
        DirectionGroup.FROM_CENTRAL_LANGUAGE: lambda d: not d.zero_shot and d.source == run.central_language,
        DirectionGroup.INTO_CENTRAL_LANGUAGE: lambda d: not d.zero_shot and d.target == run.central_language,
        DirectionGroup.SUPERVISED: lambda d: d.supervision is DirectionGroup.SUPERVISED,
        DirectionGroup.ZERO_SHOT: lambda d: d.supervision is DirectionGroup.ZERO_SHOT,
        DirectionGroup.ALL: lambda d: d.supervision is DirectionGroup.ALL,
    }
    groups = {name: [d.direction for d in run.directions if belongs(d)] for name, belongs in conditions.items()}
    return {name: members for name, members in groups.items() if members}


def _score_group(
    system: System,
    baseline: System | None,
    members: Sequence[Direction],
    differences: Mapping[Direction, BootstrapDifferences] | None,
) -> DirectionGroupScore:
    tables = [{d.direction: d for d in run.directions} for run in system.runs]
    bleu = [[table[d].bleu for d in members] for table in tables]
    language_accuracies = [mean_ignoring_none(table[d].language_accuracy for d in members) for table in tables]
    win_rates: MeanStd | None = None
    if baseline is not None and baseline is not system:
        baseline_tables = [{d.direction: d.bleu for d in run.directions} for run in baseline.runs]
        baseline_bleu = [fmean(table[d] for table in baseline_tables) for d in members]
        win_rates = MeanStd.from_values([win_rate(run_bleu, baseline_bleu) for run_bleu in bleu])
    score = DirectionGroupScore(
        num_directions=len(members),
        bleu=MeanStd.from_values([fmean(run_bleu) for run_bleu in bleu]),
        language_accuracy=MeanStd.from_values([accuracy for accuracy in language_accuracies if accuracy is not None])
        if None not in language_accuracies
        else None,
        win_rate=win_rates,
    )
    if differences is None:
        return score
    significances = [differences[d].significance() for d in members]
    return replace(
        score,
        significance=significance_of_mean([differences[d] for d in members]),
        num_significantly_better=sum(s.p_value < SIGNIFICANCE_LEVEL and s.difference > 0 for s in significances),
        num_significantly_worse=sum(s.p_value < SIGNIFICANCE_LEVEL and s.difference < 0 for s in significances),
    )
