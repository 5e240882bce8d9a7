"""`manyglot score`: score translations that any system has made, as `evaluate` scores a model's."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from manyglot.argument_types import checks_argument_types
from manyglot.corpus.languages import Direction
from manyglot.errors import FolderError
from manyglot.evaluation.hypotheses import is_result_folder
from manyglot.evaluation.score_task import ScoreOptions, ScoreTask
from manyglot.evaluation.segment_scores import MetricFiles
from manyglot.evaluation.translation_examples import TRANSLATIONS_FILE
from manyglot.files import StrPath, is_empty_folder, optional_path
from manyglot.folders import atomic_folder
from manyglot.reports.report_run import read_system_facts
from manyglot.reports.result_folder import EvaluationResult, write_results_and_report


@dataclass(frozen=True, repr=False)
class ScoreResult(EvaluationResult):
    """The scores of all directions, and the file of each."""

    files: Mapping[Direction, Path] = field(default_factory=dict)
    """The file that each direction was read from."""

    def to_dict(self) -> dict[str, Any]:
        """Return the plain values of results.json, and the file of each direction."""
        return {**super().to_dict(), "hypothesis_files": {d.as_setting(): str(path) for d, path in self.files.items()}}


@checks_argument_types
def score(
    hypotheses: StrPath,
    test: StrPath,
    output: StrPath | None = None,
    *,
    name: str | None = None,
    source: str | None = None,
    target: str | None = None,
    trained_directions: StrPath | Iterable[str] | None = None,
    central_language: str | None = None,
    metrics: Mapping[str, StrPath] | None = None,
    overrides: Iterable[str] = (),
) -> ScoreResult:
    """Score translations that any system has made.

    The hypotheses are a folder of files named by direction (`de-en.txt`), a JSONL or TSV file with the columns
    source_language, target_language and output, an output folder of `evaluate`, or a text file. `source` and `target`
    are the languages that file names do not tell. With a target alone, a file holds all directions into it, ordered by
    source. The test set is a folder of test files, as for `evaluate`, or prepared data, whose test split is used.

    `trained_directions` tells supervised from zero-shot directions: "all", directions such as `["de>en"]`, or a model
    or prepared data that has them. By default they are those of the `central_language`, if it is given; otherwise it
    stays unknown which directions are zero-shot. `metrics` are the sentence scores of other metrics, files or folders
    by name: `{"comet": "comet.json"}`. Lower scores are better for `metricx`, `ter`, and names with `:lower`. With
    `output`, results and a report are written to that folder.
    """
    folder = optional_path(output)
    if folder is not None and folder.exists() and not is_empty_folder(folder):
        raise FolderError(f"{folder} already exists. Choose another folder, or delete it.")
    directions = (
        trained_directions
        if trained_directions is None or isinstance(trained_directions, str | os.PathLike)
        else tuple(trained_directions)
    )
    metric_files = [MetricFiles.parse(key, path) for key, path in (metrics or {}).items()]
    options = ScoreOptions(name, source, target, directions, central_language, metric_files, tuple(overrides))
    path = Path(hypotheses)
    if path.name == TRANSLATIONS_FILE and is_result_folder(path.parent):
        path = path.parent
    system_facts = read_system_facts(path) if is_result_folder(path) else {}
    task = ScoreTask.load(path, Path(test), options, name or (folder.name if folder else None))
    evaluation = task.score()
    if folder is not None:
        facts = {**system_facts, "test": {"folder": str(task.test.path), "leaks": None}}
        with atomic_folder(folder) as unfinished:
            write_results_and_report(unfinished, task.system.name, evaluation, facts)
    files = {direction: aligned.lines.path for direction, aligned in task.outputs.items()}
    return ScoreResult(**vars(evaluation), files=files)
