"""The data of the HTML report, as plain values for its script: metrics and example sentences of each direction."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from manyglot.corpus.language_families import FAMILIES, language_family
from manyglot.corpus.languages import Direction, english_language_name
from manyglot.evaluation.results import shared_segment_metrics
from manyglot.probing.language_distance_analysis import script_names
from manyglot.reports.html_examples import example_data
from manyglot.reports.html_language_map import representation_map_data
from manyglot.reports.report_run import ReportRun

METRIC_DIGITS: Mapping[str, int] = {
    "bleu": 3,  # more than is shown, because the report counts the directions where one run beats another
    "chrf": 1,
    "language_accuracy": 1,
    "reference_language_accuracy": 1,
    "relative_language_accuracy": 1,
    "top_off_target_rate": 1,
    "copy_rate": 1,
    "empty_rate": 1,
    "length_ratio": 2,
}
"""Attributes of a `DirectionResult`, with the number of decimals in the report's data."""
SEGMENT_METRIC_DIGITS = 4
"""Number of decimals of other metrics; COMET's scores are between 0 and 1."""


def build_html_report_data(runs: Sequence[ReportRun]) -> dict[str, Any]:
    """Return all data that the script of the report needs. The runs must have the same directions."""
    first = runs[0].evaluation
    directions = [d.direction for d in first.directions]
    codes = sorted({code for direction in directions for code in direction})
    index_by_code = {code: i for i, code in enumerate(codes)}
    segment_metrics = shared_segment_metrics([run.evaluation for run in runs])
    num_sentences = runs[0].system_facts.get("data", {}).get("sentences", {})
    return {
        "languages": [
            {
                "code": code,
                "name": english_language_name(code),
                "family": language_family(code),
                "script": script,
                "num_training_sentences": num_sentences.get(code),
            }
            for code, script in zip(codes, script_names(codes), strict=True)
        ],
        "families": FAMILIES,
        "central_language": first.central_language,
        "source": [index_by_code[d.source] for d in directions],
        "target": [index_by_code[d.target] for d in directions],
        "zero_shot": [None if d.zero_shot is None else int(d.zero_shot) for d in first.directions],
        "num_sentences": [d.num_sentences for d in first.directions],
        "runs": [_metric_columns(run, directions, segment_metrics) for run in runs],
        "segment_metrics": [
            {"key": _segment_metric_key(name), "label": name, "lower_is_better": metric.lower_is_better}
            for name, metric in segment_metrics.items()
        ],
        "language_names": {label: english_language_name(label) for label in sorted(_identified_languages(runs))},
        **example_data(runs, directions),
        "language_maps": representation_map_data([(run.name, run.system_facts) for run in runs]),
    }


def _segment_metric_key(name: str) -> str:
    """Return the key of another metric; it differs from all attributes of a `DirectionResult`."""
    return f"segment:{name}"


def _metric_columns(run: ReportRun, directions: Sequence[Direction], segment_metrics: Iterable[str]) -> dict[str, Any]:
    results = {d.direction: d for d in run.evaluation.directions}
    ordered = [results[direction] for direction in directions]
    columns = {
        name: [_round_if_finite(getattr(d, name), digits) for d in ordered] for name, digits in METRIC_DIGITS.items()
    }
    columns |= {
        _segment_metric_key(name): [_round_if_finite(d.metrics.get(name), SEGMENT_METRIC_DIGITS) for d in ordered]
        for name in segment_metrics
    }
    return {
        "name": run.name,
        **columns,
        "top_off_target_language": [d.top_off_target_language for d in ordered],
        "output_language_counts": run.evaluation.output_language_counts,
    }


def _round_if_finite(value: float | None, digits: int) -> float | None:
    return None if value is None or not math.isfinite(value) else round(value, digits)


def _identified_languages(runs: Sequence[ReportRun]) -> set[str]:
    """Return the labels of all languages that the identifier found in outputs."""
    labels = {d.top_off_target_language for run in runs for d in run.evaluation.directions if d.top_off_target_language}
    for run in runs:
        for counts_by_target in run.evaluation.output_language_counts.values():
            labels.update(label for counts in counts_by_target.values() for label in counts)
    return labels - {""}
