"""`manyglot evaluate`: translate the test split, score it and write a report."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from manyglot.argument_types import checks_argument_types
from manyglot.corpus.zero_shot_sets import read_leak_statistics
from manyglot.decoding.ctranslate2.manifest import is_export_folder
from manyglot.devices import find_device
from manyglot.distributed import DistributedContext, distributed_context, launched_world_size
from manyglot.errors import FolderError, SettingsError
from manyglot.evaluation.command_engine import CommandEngine
from manyglot.evaluation.engine_task import EngineRequest, EngineTask
from manyglot.evaluation.evaluator import Evaluation
from manyglot.evaluation.model_task import EvaluationRequest, ModelTask
from manyglot.evaluation.test_set_translation import complete_directions, translate_evaluation_set
from manyglot.evaluation.translation_cache import TranslationCache
from manyglot.files import StrPath, is_empty_folder, optional_path, unfinished_path
from manyglot.folders import resumable_folder
from manyglot.model.model_folder import TrainedModel, is_model_folder
from manyglot.model.run_models import run_folder_of
from manyglot.model.run_paths import is_run_folder
from manyglot.reports.result_folder import EvaluationResult, write_results_and_report
from manyglot.reports.system_facts import describe_run
from manyglot.training.training_log import read_log


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
    directions: Iterable[str] | None = None,
    packs: Iterable[StrPath] = (),
) -> EvaluationResult:
    """Translate and score the test split: the supervised directions, and with `zero_shot` the zero-shot directions.

    The model is a model folder, a run folder, a checkpoint, an export for CTranslate2 or a `CommandEngine`. The text
    in `test`, in any layout of a corpus of kind `files`, replaces the test split of the data. With `output`, results
    and a report are written to that folder, an interrupted evaluation reuses its finished translations, and under
    torchrun all processes translate. The settings come from the model folder; `overrides` change its `decoding` and
    `evaluation` settings.

    No prepared data is needed if `test` is given. Without it, and for exports and commands, `trained_directions` and
    `central_language` tell supervised from zero-shot directions, as for `score`. By default this is unknown, and all
    directions are evaluated. `directions`, such as `["de>en"]`, evaluates only some. `packs` are language
    packs of the model.
    """
    folder, test_path, given = optional_path(output), optional_path(test), tuple(overrides)
    engine = model if isinstance(model, CommandEngine) else Path(model)
    is_export = not isinstance(engine, CommandEngine) and is_export_folder(engine) and not is_run_folder(engine)
    pack_folders = tuple(map(Path, packs))
    needs_no_data = data is None and test is not None
    if isinstance(engine, CommandEngine) or is_export or (needs_no_data and is_model_folder(engine)):
        trained = (
            trained_directions if isinstance(trained_directions, str | os.PathLike | None) else [*trained_directions]
        )
        listed = None if directions is None else [*directions]
        engine_request = EngineRequest(
            engine, optional_path(data), test_path, zero_shot, given, trained, central_language, listed, pack_folders
        )
        return EvaluationResult(**vars(_evaluate_engine(engine_request, folder)))
    if trained_directions is not None or central_language is not None:
        raise SettingsError("A model folder knows its trained directions. Do not state them, or a central language.")
    if directions is not None:
        raise SettingsError("A model is evaluated in its trained directions, or in all with --zero-shot.")
    if data is None:
        raise SettingsError("There is no test set. Give --data with prepared data; a model folder also takes --test.")
    if Path(data).is_dir() and not (Path(data) / "dataset.json").exists():
        raise FolderError(
            f"{data} is not a prepared dataset. Give the `data` folder that `manyglot prepare` wrote (for a language "
            f"pack, PACK.training/data), or give the text with --test instead."
        )
    request = EvaluationRequest(engine, Path(data), zero_shot, given, test_path, pack_folders)
    return EvaluationResult(**vars(_evaluate(request, folder)))


def _evaluate(request: EvaluationRequest, output: Path | None) -> Evaluation:
    if output is None:
        if launched_world_size() > 1:
            raise SettingsError("Under torchrun, the processes exchange translations through a folder. Give --output.")
        return evaluate_in_memory(request)[0]
    if output.exists() and not is_empty_folder(output):
        raise FolderError(f"{output} already exists. Choose another folder, or delete it.")
    with distributed_context("auto") as distributed:
        task = ModelTask.load(request, distributed.device)
        _check_same_step(task.trained, distributed)
        with resumable_folder(output, {"kind": "evaluation"}) if distributed.is_main else nullcontext():
            distributed.barrier()  # until the folder exists
            cache = TranslationCache(unfinished_path(output), task.provenance(), distributed.rank)
            translate_evaluation_set(task.translator, task.evaluation_set, cache, distributed)
            distributed.barrier()
            if distributed.is_main:
                evaluation = task.score(complete_directions(cache.read(), task.evaluation_set.source_texts()))
                write_results_and_report(
                    unfinished_path(output), str(request.model_folder), evaluation, _system_facts(task)
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
    """Evaluate without writing anything; return the evaluation and the facts about the system."""
    task = ModelTask.load(request, find_device("auto"))
    outputs = translate_evaluation_set(task.translator, task.evaluation_set)
    return task.score(outputs), _system_facts(task)


def _check_same_step(trained: TrainedModel, distributed: DistributedContext) -> None:
    """Raise an error unless all processes have loaded the same step; a run in training may have written another one."""
    step = float(trained.training_info.get("step", 0))
    if distributed.any_process(distributed.broadcast(step) != step):
        raise FolderError("The processes found different checkpoints, as the run is in training. Give one checkpoint.")


def _system_facts(task: ModelTask) -> dict[str, Any]:
    """Return the facts about model, data, training and test set that the report shows."""
    assert task.trained.folder is not None
    log, folder = read_log(run_folder_of(task.trained.folder) / "log.jsonl"), task.request.test
    test = None if folder is None else {"folder": str(folder), "leaks": read_leak_statistics(folder)}
    return {**describe_run(task.trained, task.dataset, log), "test": test}
