"""Evaluation from end to end: a model folder and prepared data become scores, sentences and a report."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from manyglot.batches.dataset import Dataset
from manyglot.config import apply_override
from manyglot.corpus.rows import Split
from manyglot.decoding.beam import DecodingSettings
from manyglot.decoding.translator import Translator
from manyglot.devices import find_device
from manyglot.errors import LanguageError, SettingsError
from manyglot.evaluation.common import common_part
from manyglot.evaluation.comparison import folders_of, name_runs
from manyglot.evaluation.evaluate import Evaluation, EvaluationSettings, identifier_of
from manyglot.evaluation.evaluate import evaluate as evaluate_directions
from manyglot.folders import written_whole
from manyglot.model.folder import TrainedModel, load_model
from manyglot.reports.history import History
from manyglot.reports.matrix import matrix_svg
from manyglot.reports.page import Run, read_run, write_page
from manyglot.settings import Settings, parse
from manyglot.training.log import read_log

CURVES = ("nll", "dev_nll", "dev_bleu", "dev_chrf", "zero_shot_language_accuracy")
"""What of the log is drawn in a report."""
MOST_POINTS = 200
"""Of a curve in a report."""


def evaluate(
    model_folder: Path, data: Path, zero_shot: bool = False, output: Path | None = None, overrides: Iterable[str] = ()
) -> Evaluation:
    """Translate and score the test split: the supervised directions, and the zero-shot ones if asked.

    With an output folder, the results are written there with a report. Settings are those the model was trained with;
    `overrides` change those of `decoding` and `evaluation`.
    """
    if output is not None:
        with written_whole(output) as unfinished:  # a folder that cannot be written is noticed before the work
            evaluation, about = evaluate_model(model_folder, data, zero_shot, overrides)
            write_results(unfinished, str(model_folder), evaluation, about)
        return evaluation
    return evaluate_model(model_folder, data, zero_shot, overrides)[0]


def evaluate_model(
    model_folder: Path, data: Path, zero_shot: bool, overrides: Iterable[str] = ()
) -> tuple[Evaluation, Mapping[str, Any]]:
    """The evaluation, and what is to be said about the model."""
    trained, dataset = load_model(model_folder), Dataset(data)
    for code in dataset.languages:
        if code not in trained.vocabulary.languages:
            raise LanguageError(f"The model does not know '{code}', a language of {data}.")
    trained_on = trained.directions
    values = {key: dict(trained.config.get(key) or {}) for key in ("decoding", "evaluation")}
    for override in overrides:
        apply_override(values, override)
    judged = parse(_JudgedBy, values)
    evaluation = evaluate_directions(
        Translator.of(trained, judged.decoding, find_device("auto")),
        dataset.rows(Split.TEST),
        [d for d in dataset.directions if d in trained_on],
        [d for d in dataset.directions if d not in trained_on] if zero_shot else [],
        identifier_of(judged.evaluation, dataset),
        judged.evaluation,
        dataset.pivot,
    )
    return evaluation, _about(model_folder, trained, dataset)


def write_results(folder: Path, name: str, evaluation: Evaluation, about: Mapping[str, Any]) -> Path:
    """Write all scores and sentences, and the report; return the report's path."""
    evaluation.save(folder / "results.json")
    (folder / "about.json").write_text(json.dumps(about, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    (folder / "matrix.svg").write_text(matrix_svg(evaluation), encoding="utf-8")
    write_page(folder / "report.html", [Run(name, evaluation, lambda _: evaluation.examples, about)])
    return folder / "report.html"


def report(runs: Sequence[str], output: Path, common: bool = False) -> None:
    """Write the report of a run, beside others if there are any: `[NAME=]FOLDER` each, of `evaluate`'s output."""
    given = list(dict.fromkeys(runs))
    for text in given:
        if len(folders_of(text)) > 1:
            raise SettingsError(f"{text}: a report shows single runs. Give each seed by itself.")
    found = [read_run(name, folders_of(text)[0]) for text, name in name_runs(given).items()]
    if common:
        parts = common_part([run.evaluation for run in found])
        found = [replace(run, evaluation=part) for run, part in zip(found, parts, strict=True)]
    write_page(output, found)


def _about(model_folder: Path, trained: TrainedModel, dataset: Dataset) -> dict[str, Any]:
    """The model, its data and its training, with its curves where the log is beside it."""
    log = read_log(model_folder.parent / "log.jsonl")
    history, parameters = History(log), trained.model.num_parameters()
    curves = {key: history.curve(key).thinned(MOST_POINTS) for key in CURVES}
    return {
        "model": str(model_folder),
        "languages": list(trained.vocabulary.languages),
        "num_trained_directions": len(trained.directions),
        "num_subwords": len(trained.vocabulary.subwords),
        "num_parameters": sum(parameters.values()),
        "parameters": parameters,
        "training": {
            **trained.training,
            "target_tokens": history.num_tokens,
            "seconds": log[-1].get("seconds") if log else None,
        },
        "data": {
            "folder": str(dataset.folder),
            "rows": dataset.card["rows"],
            "sentences": {code: each["sentences"] for code, each in dataset.card["subwords"].items()},
        },
        "curves": {key: [[float(n) for n in xy] for xy in zip(*each, strict=True)] for key, each in curves.items()},
        "config": trained.config,
    }


class _JudgedBy(Settings):
    """The settings that matter when a trained model is evaluated."""

    decoding: DecodingSettings = DecodingSettings()
    evaluation: EvaluationSettings = EvaluationSettings()
