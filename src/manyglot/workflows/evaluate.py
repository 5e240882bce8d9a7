"""`manyglot evaluate`: translate the test split, score it and write a report."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from manyglot.argument_types import checks_argument_types
from manyglot.batches.prepared_dataset import PreparedDataset
from manyglot.checksums import file_sha256
from manyglot.config.base_settings import Settings, parse_settings
from manyglot.config.overrides import apply_override
from manyglot.corpus.base import Row, Split
from manyglot.corpus.language_selection import match_languages
from manyglot.corpus.languages import Direction
from manyglot.corpus.readers import read_test_rows
from manyglot.corpus.zero_shot_sets import read_leak_statistics
from manyglot.decoding.ctranslate2.manifest import is_export_folder
from manyglot.decoding.settings import DecodingSettings
from manyglot.decoding.translator import Translator
from manyglot.devices import find_device
from manyglot.distributed import DistributedContext, distributed_context, launched_world_size
from manyglot.errors import FolderError, LanguageError, SettingsError
from manyglot.evaluation.command_engine import CommandEngine
from manyglot.evaluation.engine_task import EngineRequest, EngineTask
from manyglot.evaluation.evaluator import (
    Evaluation,
    EvaluationSettings,
    Evaluator,
    load_configured_identifier,
    select_evaluation_set,
)
from manyglot.evaluation.test_set_translation import EvaluationSet, complete_directions, translate_evaluation_set
from manyglot.evaluation.translation_cache import TranslationCache, json_digest
from manyglot.files import StrPath, is_empty_folder, optional_path, unfinished_path
from manyglot.folders import resumable_folder
from manyglot.model.model_folder import MODEL_FILES, TrainedModel
from manyglot.model.run_models import load_any_model, run_folder_of
from manyglot.model.run_paths import is_run_folder
from manyglot.probing.language_representations import distinct_representations
from manyglot.progress import print_status
from manyglot.reports.html_language_map import lower_triangle_similarities
from manyglot.reports.result_folder import EvaluationResult, write_results_and_report
from manyglot.reports.training_history import TrainingHistory
from manyglot.training.training_log import read_log

REPORTED_CURVES = ("nll", "dev_nll", "dev_bleu", "dev_chrf", "zero_shot_language_accuracy", "zero_shot_chrf")
"""Metrics of the training log whose curves a report shows."""
MAX_CURVE_POINTS = 200
"""Maximum number of points of a curve in a report."""


@dataclass(frozen=True)
class EvaluationRequest:
    """A model and the data to evaluate it on."""

    model_folder: Path
    """A model folder, a run folder or a checkpoint."""
    data: Path
    zero_shot: bool = False
    """Whether to evaluate the zero-shot directions too."""
    overrides: Sequence[str] = ()
    """Overrides of the model's `decoding` and `evaluation` settings, such as `decoding.beam_size=1`."""
    test: Path | None = None
    """A folder or file with test text that replaces the test split of the data."""


@checks_argument_types
def evaluate(
    model: StrPath | CommandEngine,
    data: StrPath | None = None,
    zero_shot: bool = False,
    output: StrPath | None = None,
    overrides: Iterable[str] = (),
    test: StrPath | None = None,
    *,
    trained_directions: StrPath | Iterable[str] | None = None,
    central_language: str | None = None,
) -> EvaluationResult:
    """Translate and score the test split: the supervised directions, and with `zero_shot` the zero-shot directions.

    The model is a model folder, a run folder, a checkpoint, an export for CTranslate2 or a `CommandEngine`. The text
    in `test`, in any layout of a corpus of kind `files`, replaces the test split of the data. With `output`, results
    and a report are written to that folder, an interrupted evaluation reuses its finished translations, and under
    torchrun all processes translate. The settings come from the model folder; `overrides` change its `decoding` and
    `evaluation` settings.

    Exports and commands need no prepared data if `test` is given. For them, `trained_directions` and
    `central_language` tell supervised from zero-shot directions, as for `score`. By default this is unknown, and all
    directions are evaluated.
    """
    folder, test_path, given = optional_path(output), optional_path(test), tuple(overrides)
    engine = model if isinstance(model, CommandEngine) else Path(model)
    if isinstance(engine, CommandEngine) or (is_export_folder(engine) and not is_run_folder(engine)):
        directions = (
            trained_directions if isinstance(trained_directions, str | os.PathLike | None) else [*trained_directions]
        )
        engine_request = EngineRequest(
            engine, optional_path(data), test_path, zero_shot, given, directions, central_language
        )
        return EvaluationResult(**vars(_evaluate_engine(engine_request, folder)))
    if trained_directions is not None or central_language is not None:
        raise SettingsError("A model folder knows its trained directions. Do not state them, or a central language.")
    if data is None:
        raise SettingsError("A model is evaluated with prepared data. Give --data.")
    request = EvaluationRequest(engine, Path(data), zero_shot, given, test_path)
    return EvaluationResult(**vars(_evaluate(request, folder)))


def _evaluate(request: EvaluationRequest, output: Path | None) -> Evaluation:
    if output is None:
        if launched_world_size() > 1:
            raise SettingsError("Under torchrun, the processes exchange translations through a folder. Give --output.")
        return evaluate_in_memory(request)[0]
    if output.exists() and not is_empty_folder(output):
        raise FolderError(f"{output} already exists. Choose another folder, or delete it.")
    with distributed_context("auto") as distributed:
        task = _EvaluationTask.load(request, distributed.device)
        _check_same_step(task.trained, distributed)
        with resumable_folder(output, {"kind": "evaluation"}) if distributed.is_main else nullcontext():
            distributed.barrier()  # until the folder exists
            cache = TranslationCache(unfinished_path(output), task.provenance(), distributed.rank)
            translate_evaluation_set(task.translator, task.evaluation_set, cache, distributed)
            distributed.barrier()
            if distributed.is_main:
                evaluation = task.score(complete_directions(cache.read(), task.evaluation_set.source_texts()))
                write_results_and_report(
                    unfinished_path(output), str(request.model_folder), evaluation, task.model_card()
                )
                cache.clear()
        distributed.barrier()
        return evaluation if distributed.is_main else Evaluation.load(output)


def _evaluate_engine(request: EngineRequest, output: Path | None) -> Evaluation:
    if launched_world_size() > 1:
        raise SettingsError("Engines do not run under torchrun. Start one process, with --engine-jobs for a command.")
    task = EngineTask.load(request)
    if output is None:
        return task.score(task.translate(), task.name)
    with resumable_folder(output, {"kind": "evaluation"}) as unfinished:
        cache = TranslationCache(unfinished, task.provenance())
        evaluation = task.score(task.translate(cache), output.name)
        write_results_and_report(unfinished, output.name, evaluation, task.facts())
        cache.clear()
    return evaluation


def evaluate_in_memory(request: EvaluationRequest) -> tuple[Evaluation, Mapping[str, Any]]:
    """Evaluate without writing anything; return the evaluation and the model card."""
    task = _EvaluationTask.load(request, find_device("auto"))
    outputs = translate_evaluation_set(task.translator, task.evaluation_set)
    return task.score(outputs), task.model_card()


@dataclass(frozen=True)
class _EvaluationTask:
    """Everything that an evaluation needs: the loaded model, data and settings."""

    request: EvaluationRequest
    trained: TrainedModel
    dataset: PreparedDataset
    translator: Translator
    evaluation_set: EvaluationSet
    evaluator: Evaluator

    @classmethod
    def load(cls, request: EvaluationRequest, device: torch.device) -> _EvaluationTask:
        """Load the model and the test sentences; raise an error if they are incompatible."""
        trained, dataset = load_any_model(request.model_folder), PreparedDataset(request.data)
        model_codes = match_languages(dataset.languages, trained.vocabulary.languages, "the model's languages")
        for code in dataset.languages:
            if code not in model_codes:
                raise LanguageError(
                    f"The model does not know '{code}', a language of {request.data}. "
                    f"Choose data in the model's languages."
                )
        values = {key: dict(trained.config.get(key) or {}) for key in ("decoding", "evaluation")}
        for override in request.overrides:
            apply_override(values, override)
        settings = parse_settings(_EvaluationTimeSettings, values)
        directions, trained_directions = dataset.all_directions, set(trained.trained_directions)
        train_directions = {
            d for d in directions if Direction(model_codes[d.source], model_codes[d.target]) in trained_directions
        }
        if request.test is None:
            rows: Sequence[Row] = dataset.rows(Split.TEST)
        else:
            rows = read_test_rows(request.test, dataset.languages)
            directions = _directions_with_text(directions, rows)
        supervised = [d for d in directions if d in train_directions]
        zero_shot = [d for d in directions if d not in train_directions] if request.zero_shot else []
        evaluation_set = replace(
            select_evaluation_set(rows, supervised, zero_shot, settings.evaluation), model_codes=model_codes
        )
        translator = Translator.from_trained_model(trained, settings.decoding, device)
        translator = translator.with_text_options(split="never", warn=False)  # a test sentence is translated as it is
        identifier = load_configured_identifier(settings.evaluation, dataset.languages, dataset)
        evaluator = Evaluator(identifier, settings.evaluation, settings.decoding, dataset.central_language)
        return cls(request, trained, dataset, translator, evaluation_set, evaluator)

    def score(self, outputs: Mapping[Direction, Sequence[str]]) -> Evaluation:
        """Score the translations; the result records which step of the training was evaluated."""
        return replace(self.evaluator.score(self.evaluation_set, outputs), training=self.trained.training_info)

    def provenance(self) -> dict[str, Any]:
        """Return everything that the outputs depend on: model checksums, decoding settings and sentences."""
        assert self.trained.folder is not None
        assert self.evaluator.decoding is not None
        files = [path for name in MODEL_FILES if (path := self.trained.folder / name).exists()]
        sources = [[*direction, texts] for direction, texts in self.evaluation_set.source_texts().items()]
        return {
            "model": {path.name: file_sha256(path) for path in files},
            "decoding": self.evaluator.decoding.model_dump(mode="json"),
            "sentences": json_digest(sources),
        }

    def model_card(self) -> dict[str, Any]:
        """Return the facts about model, data, training and test set that the report shows."""
        folder = self.request.test
        test = None if folder is None else {"folder": str(folder), "leaks": read_leak_statistics(folder)}
        return {**_model_card(self.trained, self.dataset), "test": test}


def _check_same_step(trained: TrainedModel, distributed: DistributedContext) -> None:
    """Raise an error unless all processes have loaded the same step; a run in training may have written another one."""
    step = float(trained.training_info.get("step", 0))
    if distributed.any_process(distributed.broadcast(step) != step):
        raise FolderError("The processes found different checkpoints, as the run is in training. Give one checkpoint.")


def _model_card(trained: TrainedModel, dataset: PreparedDataset) -> dict[str, Any]:
    """Describe the model, its data and its training, with learning curves if the log of its run is in their place."""
    assert trained.folder is not None
    num_steps = trained.training_info.get("steps", math.inf)
    log = [line for line in read_log(run_folder_of(trained.folder) / "log.jsonl") if line["step"] <= num_steps]
    history, parameters = TrainingHistory(log), trained.model.num_parameters_by_part()
    corpus = {name: value for name, value in trained.config.get("corpus", {}).items() if name != "license"}
    is_training_corpus = dataset.metadata["provenance"].get("corpus") == corpus
    num_sentences = {code: counts["sentences"] for code, counts in dataset.metadata["subwords"].items()}
    curves = {key: history.metric_curve(key).downsample(MAX_CURVE_POINTS) for key in REPORTED_CURVES}
    return {
        "model": str(trained.folder),
        "languages": list(trained.vocabulary.languages),
        "similarities": {
            representation.method: lower_triangle_similarities(representation.values)
            for representation in distinct_representations(trained, "")
        },
        "num_trained_directions": len(trained.trained_directions),
        "num_subwords": len(trained.vocabulary.subword_model),
        "num_parameters": sum(parameters.values()),
        "parameters": parameters,
        "training": {
            **trained.training_info,
            "target_tokens": history.num_target_tokens,
            "seconds": log[-1].get("seconds") if log else None,
        },
        "data": {
            "folder": str(dataset.folder),
            "rows": dataset.metadata["rows"],
            "sentences": num_sentences if is_training_corpus else {},
        },
        "curves": {key: [[float(n) for n in xy] for xy in zip(*curve, strict=True)] for key, curve in curves.items()},
        "config": trained.config,
    }


def _directions_with_text(directions: Iterable[Direction], rows: Sequence[Mapping[str, str]]) -> list[Direction]:
    """Return the directions whose two languages have text; report the languages without text."""
    with_text = {code for row in rows for code in row}
    missing = {code for direction in directions for code in direction} - with_text
    if missing:
        print_status(f"There is no test text in {', '.join(sorted(missing))}.")
    return [direction for direction in directions if with_text.issuperset(direction)]


class _EvaluationTimeSettings(Settings):
    """The settings of a trained model that apply at evaluation time."""

    decoding: DecodingSettings = DecodingSettings()
    evaluation: EvaluationSettings = EvaluationSettings()
