"""`manyglot evaluate`: translate the test split, score it and write a report."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from manyglot.batches.dataset import Dataset
from manyglot.config.overrides import apply_override
from manyglot.config.settings import Settings, parse
from manyglot.corpus.languages import Direction
from manyglot.corpus.rows import Split
from manyglot.corpus.sources import read_test
from manyglot.corpus.zero_shot import read_leaks
from manyglot.decoding.beam import DecodingSettings
from manyglot.decoding.translator import Translator
from manyglot.devices import find_device
from manyglot.distributed import distributed_context, num_processes
from manyglot.errors import FolderError, LanguageError, SettingsError
from manyglot.evaluation.evaluate import Evaluation, EvaluationSettings, Evaluator, identifier_of, select_sentences
from manyglot.evaluation.kept import Kept, digest
from manyglot.evaluation.translate import EvaluationSet, translate_evaluation_set
from manyglot.files import StrPath, checksum, continued, is_empty, optional_path, unfinished_of
from manyglot.model.folder import TrainedModel, load_model
from manyglot.probing.representations import representations_of
from manyglot.progress import say
from manyglot.reports.history import History
from manyglot.reports.language_places import pairs_of
from manyglot.reports.matrix import matrix_svg
from manyglot.reports.page import run_of, write_page
from manyglot.training.log import read_log

CURVES = ("nll", "dev_nll", "dev_bleu", "dev_chrf", "zero_shot_language_accuracy", "zero_shot_chrf")
"""What of the log is drawn in a report."""
MOST_POINTS = 200
"""Of a curve in a report."""


@dataclass(frozen=True)
class EvaluationRequest:
    """A model and what to evaluate it on."""

    model_folder: Path
    data: Path
    zero_shot: bool = False
    """Whether to evaluate the zero-shot directions too."""
    overrides: Sequence[str] = ()
    """Changes of the model's `decoding` and `evaluation` settings, such as `decoding.beam=1`."""
    test: Path | None = None
    """A folder of test files that replaces the test split of the data."""


def evaluate(
    model_folder: StrPath,
    data: StrPath,
    zero_shot: bool = False,
    output: StrPath | None = None,
    overrides: Iterable[str] = (),
    test: StrPath | None = None,
) -> Evaluation:
    """Translate and score the test split: the supervised directions, and the zero-shot ones if asked.

    The files of a folder `test`, line-aligned or in pairs, take the place of the data's own test split. With an output
    folder, the results are written there with a report, and an interrupted evaluation goes on with what it has
    translated; under torchrun all processes translate. Settings are those the model was trained with; `overrides`
    change those of `decoding` and `evaluation`.
    """
    request = EvaluationRequest(Path(model_folder), Path(data), zero_shot, tuple(overrides), optional_path(test))
    if output is None:
        if num_processes() > 1:
            raise SettingsError("Several processes hand their translations over in a folder. Give --output.")
        return evaluate_model(request)[0]
    output = Path(output)
    if output.exists() and not is_empty(output):
        raise FolderError(f"{output} exists. Choose another folder, or delete it.")
    with distributed_context("auto") as distributed:
        task = _EvaluationTask.of(request, distributed.device)
        with continued(output, {"kind": "evaluation"}) if distributed.is_main else nullcontext():
            distributed.wait()  # the folder is there
            kept = Kept(unfinished_of(output), task.origin(), distributed.rank)
            translate_evaluation_set(task.translator, task.evaluation_set, kept, distributed)
            distributed.wait()
            if distributed.is_main:
                evaluation = task.evaluator.score(task.evaluation_set, kept.read())
                write_results(unfinished_of(output), str(model_folder), evaluation, task.about())
                kept.clear()
        distributed.wait()
        return evaluation if distributed.is_main else Evaluation.load(output)


def evaluate_model(request: EvaluationRequest) -> tuple[Evaluation, Mapping[str, Any]]:
    """Return the scores, and a description of the model for the report; write nothing."""
    task = _EvaluationTask.of(request, find_device("auto"))
    outputs = translate_evaluation_set(task.translator, task.evaluation_set)
    return task.evaluator.score(task.evaluation_set, outputs), task.about()


@dataclass(frozen=True)
class _EvaluationTask:
    """Everything that an evaluation needs, loaded."""

    request: EvaluationRequest
    trained: TrainedModel
    dataset: Dataset
    translator: Translator
    evaluation_set: EvaluationSet
    evaluator: Evaluator

    @classmethod
    def of(cls, request: EvaluationRequest, device: torch.device) -> _EvaluationTask:
        """Load the model and the sentences; refuse what cannot be evaluated."""
        trained, dataset = load_model(request.model_folder), Dataset(request.data)
        for code in dataset.languages:
            if code not in trained.vocabulary.languages:
                raise LanguageError(f"The model does not know '{code}', a language of {request.data}.")
        values = {key: dict(trained.config.get(key) or {}) for key in ("decoding", "evaluation")}
        for override in request.overrides:
            apply_override(values, override)
        settings, seen, test = parse(_Settings, values), set(trained.directions), request.test
        rows = dataset.rows(Split.TEST) if test is None else read_test(test, dataset.languages)
        directions = dataset.directions if test is None else _among(dataset.directions, rows)
        supervised = [d for d in directions if d in seen]
        unseen = [d for d in directions if d not in seen] if request.zero_shot else []
        evaluation_set = select_sentences(rows, supervised, unseen, settings.evaluation)
        translator = Translator.of(trained, settings.decoding, device)
        identifier = identifier_of(settings.evaluation, dataset)
        evaluator = Evaluator(identifier, settings.evaluation, settings.decoding, dataset.pivot)
        return cls(request, trained, dataset, translator, evaluation_set, evaluator)

    def origin(self) -> dict[str, Any]:
        """Return what the outputs depend on."""
        files = sorted(path for path in self.request.model_folder.iterdir() if path.is_file())
        return {
            "model": {path.name: checksum(path) for path in files},
            "decoding": self.evaluator.decoding.model_dump(mode="json"),
            "sentences": digest([[*direction, texts] for direction, texts in self.evaluation_set.sources().items()]),
        }

    def about(self) -> dict[str, Any]:
        """Describe the model, its data and the test set for the report."""
        folder = self.request.test
        test = None if folder is None else {"folder": str(folder), "leaks": read_leaks(folder)}
        return {**_about(self.request.model_folder, self.trained, self.dataset), "test": test}


def write_results(folder: Path, name: str, evaluation: Evaluation, about: Mapping[str, Any]) -> Path:
    """Write all scores and sentences, and the report; return the report's path."""
    evaluation.save(folder / "results.json")
    (folder / "about.json").write_text(json.dumps(about, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    (folder / "matrix.svg").write_text(matrix_svg(evaluation), encoding="utf-8")
    write_page(folder / "report.html", [run_of(name, evaluation, about)])
    return folder / "report.html"


def _about(model_folder: Path, trained: TrainedModel, dataset: Dataset) -> dict[str, Any]:
    """The model, its data and its training, with its curves where the log is beside it."""
    log = read_log(model_folder.parent / "log.jsonl")
    history, parameters = History(log), trained.model.num_parameters()
    same = dataset.card["origin"].get("corpus") == trained.config.get(
        "corpus"
    )  # what it is judged on may be other text
    curves = {key: history.curve(key).thinned(MOST_POINTS) for key in CURVES}
    return {
        "model": str(model_folder),
        "languages": list(trained.vocabulary.languages),
        "similarities": {each.method: pairs_of(each.values) for each in representations_of(trained, "")},
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
            "sentences": {code: each["sentences"] for code, each in dataset.card["subwords"].items()} if same else {},
        },
        "curves": {key: [[float(n) for n in xy] for xy in zip(*each, strict=True)] for key, each in curves.items()},
        "config": trained.config,
    }


def _among(directions: Iterable[Direction], rows: Sequence[Mapping[str, str]]) -> list[Direction]:
    """The directions between languages that have text; others are named."""
    there = {code for row in rows for code in row}
    missing = {code for direction in directions for code in direction} - there
    if missing:
        say(f"The test text has no {', '.join(sorted(missing))}.")
    return [direction for direction in directions if there.issuperset(direction)]


class _Settings(Settings):
    """The settings of a trained model that an evaluation depends on."""

    decoding: DecodingSettings = DecodingSettings()
    evaluation: EvaluationSettings = EvaluationSettings()
