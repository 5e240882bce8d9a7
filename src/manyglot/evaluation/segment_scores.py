"""Adds the sentence scores of other metrics to an evaluation: joined by direction and position, and averaged."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from manyglot.corpus.languages import Direction
from manyglot.errors import CorpusError, LanguageError, SettingsError, shorten
from manyglot.evaluation.hypotheses import TextLines, name_files
from manyglot.evaluation.hypothesis_alignment import TestRows, split_lines_by_size
from manyglot.evaluation.results import DirectionResult, Evaluation, format_directions
from manyglot.evaluation.scored_system import FileOrigin, SegmentMetric
from manyglot.evaluation.segment_score_files import SegmentScores, read_segment_scores, unknown_directions
from manyglot.evaluation.sentence_statistics import Array
from manyglot.evaluation.test_set_translation import EvaluationSet
from manyglot.files import StrPath
from manyglot.progress import print_status

LOWER_IS_BETTER = ("metricx", "ter", "wer", "cer")
"""Metrics whose scores are errors, by the beginning of their names."""
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9+._-]{0,39}")


class MetricFiles(NamedTuple):
    """A metric and the path of its scores."""

    name: str
    path: Path
    lower_is_better: bool | None
    """None if neither `:lower` nor `:higher` says so."""

    @classmethod
    def parse(cls, key: str, path: StrPath) -> MetricFiles:
        """Parse the name of a metric, such as comet or ter:lower."""
        name, colon, order = key.partition(":")
        if not _NAME.fullmatch(name) or name in {each.name for each in fields(DirectionResult)}:
            raise SettingsError(f"--metric: '{shorten(key)}' cannot name a metric. Use a name such as comet.")
        if colon and order not in ("lower", "higher"):
            raise SettingsError(f"--metric {key}: write {name}:lower or {name}:higher, whichever is better.")
        return cls(name, Path(path), order == "lower" if colon else None)


def parse_metric_options(options: list[str]) -> dict[str, str]:
    """Parse options such as comet=scores.json; raise an error if a metric is given twice."""
    metrics: dict[str, str] = {}
    for option in options:
        name, equals, path = option.partition("=")
        if not equals or not path or name in metrics:
            raise SettingsError(f"--metric takes NAME=PATH, such as comet=comet.json, once per name; got '{option}'.")
        metrics[name] = path
    return metrics


class JoinedScores(NamedTuple):
    """The scores of a metric for the sentences of an evaluation set."""

    metric: SegmentMetric
    scores_by_direction: Mapping[Direction, Array]


def join_segment_scores(
    files: MetricFiles, test: TestRows, evaluation_set: EvaluationSet, outputs: Mapping[Direction, list[str]]
) -> JoinedScores:
    """Read the scores of a metric and join them with the sentences of an evaluation set."""
    read = read_segment_scores(files.path, files.name, test.languages)
    rows_by_direction = evaluation_set.rows_by_direction
    if unknown := unknown_directions(read.scores, list(rows_by_direction)):
        raise LanguageError(
            f"--metric {files.name}: {read.scores[unknown[0]].path} has scores of {format_directions(unknown)}, of "
            f"which there are no translations. Remove them."
        )
    scores, scored_outputs = (_by_direction(lines, evaluation_set) for lines in (read.scores, read.outputs))
    joined = {}
    for direction, lines in scores.items():
        rows = rows_by_direction[direction]
        joined[direction] = np.array(list(map(float, test.align(direction, lines, rows).texts())))
        if direction in scored_outputs:
            aligned = test.align(direction, scored_outputs[direction], rows)
            for index, text, output in zip(aligned.indices, aligned.texts(), outputs[direction], strict=True):
                if text.strip() != output.strip():
                    raise CorpusError(
                        f"{aligned.lines.place(index)}: {files.name} scored '{shorten(text, 40)}', but the translation "
                        f"of {direction} is '{shorten(output, 40)}'. Score these translations, in their order."
                    )
    _report_gaps(files, read, [d for d in rows_by_direction if d not in joined], len(rows_by_direction))
    lower = files.lower_is_better
    if lower is None:
        lower = read.is_metricx or files.name.casefold().startswith(LOWER_IS_BETTER)
    return JoinedScores(SegmentMetric(lower, FileOrigin.of(files.path, read.files)), joined)


def add_segment_scores(evaluation: Evaluation, scores_by_metric: Mapping[str, JoinedScores]) -> Evaluation:
    """Return the evaluation with the scores of other metrics in its results and statistics."""
    if not scores_by_metric:
        return evaluation
    dtype = [(name, "<f8") for name in scores_by_metric]
    results, statistics = [], dict(evaluation.statistics)
    for result in evaluation.directions:
        scores_N = np.full(result.num_sentences, np.nan, dtype=dtype)
        for name, joined in scores_by_metric.items():
            if result.direction in joined.scores_by_direction:
                scores_N[name] = joined.scores_by_direction[result.direction]
        sentences = statistics[result.direction]._replace(metric_scores_N=scores_N)
        statistics[result.direction] = sentences
        results.append(replace(result, metrics=sentences.mean_metric_scores()))
    metrics = {name: joined.metric for name, joined in scores_by_metric.items()}
    return replace(evaluation, directions=results, statistics=statistics, metrics=metrics)


def _by_direction(
    lines: Mapping[Direction | None, TextLines], evaluation_set: EvaluationSet
) -> dict[Direction, TextLines]:
    """Split lines without a direction: they are all sentences, in the order of translations.jsonl."""
    by_direction = {direction: each for direction, each in lines.items() if direction is not None}
    if None in lines:
        if by_direction:
            raise CorpusError(f"{lines[None].path} names no direction, but other scores do. Name it by its direction.")
        sizes = {direction: len(rows) for direction, rows in evaluation_set.rows_by_direction.items()}
        return split_lines_by_size(lines[None], sizes, "directions")
    return by_direction


def _report_gaps(files: MetricFiles, read: SegmentScores, missing: list[Direction], num_directions: int) -> None:
    if read.skipped:
        print_status(
            f"{files.name}: skipping {len(read.skipped):,} files without a direction of the test set: "
            f"{name_files(read.skipped, files.path)}."
        )
    if read.num_skipped_scores:
        print_status(f"{files.name}: skipping {read.num_skipped_scores:,} scores in languages the test set lacks.")
    if missing:
        print_status(
            f"{files.name} has no scores in {len(missing):,} of {num_directions:,} directions: "
            f"{format_directions(missing)}."
        )
