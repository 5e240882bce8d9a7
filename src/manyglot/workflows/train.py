"""`manyglot train`: train a model, resume a run, or estimate what training needs (`--dry-run`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch

from manyglot.argument_types import checks_argument_types
from manyglot.batches.background_verification import verified_in_background
from manyglot.batches.loader import BatchLoader
from manyglot.batches.pair_index import PairIndex
from manyglot.batches.prepared_dataset import PreparedDataset
from manyglot.batches.source_lengths import measure_source_lengths
from manyglot.config.experiment import Experiment, ExperimentSource, load_experiment, resolve_init
from manyglot.corpus.base import Split
from manyglot.corpus.languages import Direction
from manyglot.corpus.readers import open_corpus
from manyglot.decoding.translator import Translator
from manyglot.devices import find_device
from manyglot.distributed import DistributedContext, distributed_context, is_restarted, launched_world_size
from manyglot.errors import FolderError, ManyglotError, SettingsError, StoppedByUser
from manyglot.evaluation.dev_evaluators import DEV_SAMPLE_SEED, make_dev_evaluators
from manyglot.model.initial_model import started_from
from manyglot.model.model_folder import ModelDescription, TrainedModel, load_model, read_training_info, save_model
from manyglot.model.positions import check_max_positions
from manyglot.model.transformer import Transformer
from manyglot.model.warm_start import copy_weights
from manyglot.progress import print_status
from manyglot.reports.displayable import Displayable, DisplayPart
from manyglot.reports.result_parts import format_training_step
from manyglot.reports.run_summary import RunSummary
from manyglot.training import trainer
from manyglot.training.callbacks import CheckpointEvent, StepEvent, TrainingCallbacks, ValidationEvent
from manyglot.training.checkpoint import RunState, load_best_weights
from manyglot.training.contrastive_alignment import (
    check_and_describe_aligned_pairs,
    explain_disabled_alignment,
    make_aligned_target_selection,
    resolve_alignment,
)
from manyglot.training.dry_run import DataSchedule, DiskEstimate, DryRunResult, ResumeStatus
from manyglot.training.freezing import FrozenWeights
from manyglot.training.fsdp import gather_model_on_main, move_or_shard_model
from manyglot.training.memory_check import check_cpu_memory, check_weights_fit, explain_cpu_memory_shortage
from manyglot.training.run_folder import STOP_MARKER_NAME, check_resumable, check_run_writable, is_started, lock_run
from manyglot.training.step_timing import time_steps
from manyglot.training.trackers import check_trackers_installed
from manyglot.training.trainer import TrainingSettings, is_finished, make_optimizer, resume_from_last_checkpoint
from manyglot.training.training_log import read_log
from manyglot.training.validation import DevEvaluator, DevLossEvaluator, Validator
from manyglot.vocabulary.vocabulary import LanguageTags


@dataclass(frozen=True, repr=False)
class TrainingResult(Displayable):
    """A trained model. It can be used as the path of its model folder, for example in `manyglot.load(result)`."""

    model_folder: Path
    run: Path
    training_info: Mapping[str, Any] = field(default_factory=dict)
    """The number of training `steps`, the `step` of the weights, and the metric that selected it."""
    summary: RunSummary | None = None
    """Totals and final values of the training log; None if there is no log."""

    def __fspath__(self) -> str:
        return str(self.model_folder)

    def display_parts(self) -> Iterator[DisplayPart]:
        """Yield the folder, the step of the weights and a summary of the training."""
        yield f"model folder {self.model_folder}"
        yield f"weights of {format_training_step(self.training_info)}"
        if self.summary is not None:
            yield from str(self.summary).splitlines()


@checks_argument_types
def train(
    experiment: ExperimentSource,
    *,
    on_step: Callable[[StepEvent], object] | None = None,
    on_validation: Callable[[ValidationEvent], object] | None = None,
    on_checkpoint: Callable[[CheckpointEvent], object] | None = None,
) -> TrainingResult:
    """Train a model on the prepared data. An interrupted run resumes where it stopped.

    The experiment is an `Experiment`, a YAML file or a dictionary. The result can be used as the path of the model
    folder. Callbacks receive an event after every update, validation and checkpoint; `event.request_stop()` saves a
    checkpoint and ends the call with `StoppedByUser`, as Ctrl-C does. Under torchrun, all processes train the model
    together, and callbacks are called in the main process.
    """
    experiment = load_experiment(experiment)
    with distributed_context(experiment.training.device) as distributed:
        model_folder = _train(experiment, distributed, TrainingCallbacks(on_step, on_validation, on_checkpoint))
    summary = RunSummary.from_log(read_log(experiment.run / "log.jsonl"))
    # A process on another machine may not see the folder.
    training_info = read_training_info(model_folder) if model_folder.exists() else {}
    return TrainingResult(model_folder, experiment.run, training_info, summary)


def dry_run(experiment: ExperimentSource) -> DryRunResult:
    """Report what `train` would do, how long it would take and what it would need, without writing anything.

    If training would be refused because the memory is too small, the result has everything except the time.
    """
    experiment = load_experiment(experiment)
    if launched_world_size() > 1:
        raise SettingsError("--dry-run needs a single process. Start it without torchrun.")
    device, run = find_device(experiment.training.device), experiment.run
    experiment, dataset, model, loader, frozen, notes = _load_training_inputs(experiment)
    settings = experiment.training
    _print_all(notes)
    validator = _make_validator(experiment, dataset, model.tags_by_language(), loader.directions, device)
    memory_shortage = explain_cpu_memory_shortage(model, loader, settings, DistributedContext(device))
    move_or_shard_model(model, settings.fsdp, DistributedContext(device))
    frozen.apply(model)
    optimizer, state = make_optimizer(model, settings), RunState()
    try:
        check_trackers_installed(settings.trackers)
        check_resumable(run, experiment, dataset.digest())
        check_run_writable(run)
        if (last_step := _finished_step(experiment)) is not None:
            resume_status = ResumeStatus(str(run), "finished", last_step)
        else:
            state = resume_from_last_checkpoint(run, model, optimizer, settings)
            started: Literal["resumes", "new"] = "resumes" if state.step else "new"
            status = "finished" if is_finished(state, settings) else started
            resume_status = ResumeStatus(str(run), status, state.step)
    except ManyglotError as error:
        resume_status = ResumeStatus(str(run), "refused", refusal_reason=str(error))
    step_timing = None
    if memory_shortage is None:
        print_status("Timing a few training steps; Ctrl-C stops.")
        step_timing = time_steps(model, optimizer, loader, state, settings, experiment.seed, device)
    else:
        resume_status = ResumeStatus(str(run), "refused", refusal_reason=memory_shortage)
    disk = DiskEstimate.for_run(run, model, settings)
    data_schedule = DataSchedule.from_loader(loader, dataset.train_directions, settings)
    num_parameters = sum(model.num_parameters_by_part().values())
    validation = validator.to_dict(settings.validate_every)
    return DryRunResult(resume_status, data_schedule, num_parameters, step_timing, disk, validation)


class _TrainingInputs(NamedTuple):
    """What training starts from."""

    experiment: Experiment
    """The experiment, with `training.alignment` and the settings that depend on `init` resolved."""
    dataset: PreparedDataset
    model: Transformer
    loader: BatchLoader
    frozen: FrozenWeights
    notes: Sequence[str]
    """What was copied from another model, and how the encoder is aligned, or why `auto` does not align it."""


def _load_training_inputs(experiment: Experiment) -> _TrainingInputs:
    """Open the prepared data, initialize a model, make the batch loader and resolve the alignment."""
    experiment, initial_model = resolve_init(experiment)
    dataset = PreparedDataset(experiment.data)
    dataset.check_provenance(experiment.preparation_settings.to_dict())
    _warn_if_text_changed(experiment, dataset)
    model, frozen, notes = initialize_model(experiment, dataset), FrozenWeights(), []
    if initial_model is not None and experiment.init is not None:
        name = str(experiment.init.model)
        summary = copy_weights(initial_model, model, dataset.vocabulary, name)
        frozen = FrozenWeights(experiment.init.freeze, summary.new_entries)
        if not is_started(experiment.run):
            notes = [f"Starting from the weights of {name}:", *summary.format_lines()]
        notes += _freeze(model, frozen, experiment.training)
    store, directions = dataset.token_store(Split.TRAIN), dataset.train_directions
    loader = BatchLoader(store, directions, experiment.batches, model.tags_by_language(), experiment.seed)
    check_max_positions(experiment.model, loader.max_tokens_per_sentence)
    pairs_per_batch = float(loader.plan.samples_per_epoch_D.sum() / loader.plan.num_batches(0))
    has_zero_shot_directions = len(directions) < len(dataset.all_directions)
    if initial_model is not None and frozen.parts:  # what is new will translate from and into its other languages too
        has_zero_shot_directions |= len(initial_model.vocabulary.languages) > len(dataset.languages)
    trains_encoder = frozen.trains_encoder(model)
    alignment = resolve_alignment(
        experiment.training.alignment,
        model,
        pairs_per_batch,
        has_zero_shot_directions=has_zero_shot_directions,
        trains_encoder=trains_encoder,
    )
    if alignment is not None:
        make_aligned_target_selection(model, alignment)  # raises an error for some guidance methods
        notes.append(check_and_describe_aligned_pairs(alignment, pairs_per_batch))
    elif experiment.training.alignment == "auto" and has_zero_shot_directions and trains_encoder:
        notes.append(explain_disabled_alignment(model, pairs_per_batch))
    settings = experiment.training.model_copy(update={"alignment": alignment})
    return _TrainingInputs(experiment.model_copy(update={"training": settings}), dataset, model, loader, frozen, notes)


def _freeze(model: Transformer, frozen: FrozenWeights, settings: TrainingSettings) -> Iterator[str]:
    """Freeze parts of a model that is not on its device yet, and yield a line that says what is trained."""
    if settings.fsdp and frozen.has_partly_frozen_parameters:
        raise SettingsError("training.fsdp cannot freeze a part of a parameter. Train without it, or freeze nothing.")
    frozen.apply(model)
    if frozen.parts:
        yield frozen.describe(model)


def _print_all(messages: Iterable[str]) -> None:
    for message in filter(None, messages):
        print_status(message)


def _train(experiment: Experiment, distributed: DistributedContext, callbacks: TrainingCallbacks) -> Path:
    experiment, dataset, model, loader, frozen, notes = _load_training_inputs(experiment)
    settings = experiment.training
    validator = _make_validator(experiment, dataset, model.tags_by_language(), loader.directions, distributed.device)
    run_identity = experiment.run, experiment, dataset.digest()
    check_trackers_installed(settings.trackers)
    check_resumable(*run_identity)  # after the settings checks; in every process, so that all of them fail
    distributed.barrier()
    model_folder = experiment.run / "model"
    if (last_step := _finished_step(experiment)) is not None:
        early = ", where it stopped early" if last_step < settings.max_steps else ""
        print_status(f"{experiment.run} is already trained to step {last_step}{early}; its model is {model_folder}.")
        if early:
            print_status(f"To continue training, delete {model_folder} and raise training.patience.")
        return model_folder
    check_cpu_memory(model, loader, settings, distributed)
    with (
        lock_run(*run_identity) if distributed.is_main else nullcontext(),
        verified_in_background(dataset, distributed) as verification,
    ):
        _raise_if_callback_stopped(experiment.run, distributed)
        _print_all(notes)
        directions = tuple(loader.directions)
        source_lengths = measure_source_lengths(dataset, (direction.source for direction in directions))
        description = ModelDescription(dataset.vocabulary, directions, experiment.to_dict(), source_lengths)
        state = trainer.train(
            model,
            loader,
            settings,
            experiment.run,
            experiment.seed,
            validator,
            distributed,
            description,
            verification,
            callbacks,
            frozen,
        )
        if not is_finished(state, settings):
            distributed.barrier()  # torchrun ends the other processes as soon as one of them ends
            raise StoppedByUser(f"Stopped at step {state.step:,} and saved it. Run the same command to resume.")
        full_model = gather_model_on_main(model, distributed)
        if distributed.is_main:
            training_info = _load_best_or_last_weights(experiment.run, full_model, state, validator)
            training_info |= started_from(description.config)
            save_model(model_folder, TrainedModel.from_description(full_model, description, training_info))
        distributed.barrier()
    return model_folder


def _raise_if_callback_stopped(run: Path, distributed: DistributedContext) -> None:
    """Raise an error if a callback stopped the run and torchrun, which takes this for a failure, started it again."""
    marker = run / STOP_MARKER_NAME
    has_marker = distributed.any_process(distributed.is_main and marker.exists())
    if distributed.any_process(is_restarted()) and has_marker:
        raise StoppedByUser("A callback has stopped this run. Start torchrun again to resume it.")
    if distributed.is_main:
        marker.unlink(missing_ok=True)


def _finished_step(experiment: Experiment) -> int | None:
    """Return the last step of a run that has its final model, else None.

    Raise an error if the settings ask for more steps than the finished run has.
    """
    model_folder = experiment.run / "model"
    if not model_folder.exists():
        return None
    try:
        trained = load_model(model_folder)
    except FolderError as error:
        raise FolderError(
            f"{error} Or delete {model_folder} and run the same command: the checkpoints have the model."
        ) from None
    max_steps = int(trained.config["training"]["max_steps"])
    last_step = int(trained.training_info.get("steps", max_steps))
    if experiment.training.max_steps > last_step == max_steps:
        raise FolderError(
            f"{experiment.run} is trained to step {last_step}. To continue training, delete {model_folder} first."
        )
    return last_step


def _load_best_or_last_weights(run: Path, model: Transformer, state: RunState, validator: Validator) -> dict[str, Any]:
    """Load the weights of the best step, or keep those of the last step. Report and return the step and its score."""
    criterion, best_steps = validator.criterion, state.best_steps.comparable_under(validator.criterion)
    best = load_best_weights(run / "checkpoints", model, best_steps)
    if best is None or criterion is None:
        print_status(f"The model has the weights of the last step, {state.step:,}.")
        return {"steps": state.step, "step": state.step, "best_metric": None}
    sample = dict(criterion.sample_id_of(best.metric) or {})
    is_above_chance = best.metric == criterion.metric and criterion.is_above_chance(best.value)
    because = "" if is_above_chance else f"; {criterion.metric} was never above chance"
    print_status(
        f"The model has the weights of step {best.step:,} of {state.step:,}, the best by {best.metric} "
        f"({best.value:.2f}){because}."
    )
    selection = {"best_metric": best.metric, "value": best.value, "measured_on": sample}
    return {"steps": state.step, "step": best.step, **selection}


def _warn_if_text_changed(experiment: Experiment, dataset: PreparedDataset) -> None:
    """Warn if the text has changed since the data was prepared. Ignore text that no longer exists."""
    try:
        text = open_corpus(experiment.corpus).fingerprint()
    except ManyglotError:
        return
    if text != dataset.metadata["provenance"]["text"]:
        print_status(
            f"The text has changed since {dataset.folder} was prepared. To use the new text, delete the folder and "
            f"prepare again."
        )


def _make_validator(
    experiment: Experiment,
    dataset: PreparedDataset,
    tags: list[LanguageTags],
    train_directions: list[Direction],
    device: torch.device,
) -> Validator:
    """Make the validator, which evaluates the model during training and selects the best step."""
    evaluators = _make_dev_evaluators(experiment, dataset, tags, train_directions, device)
    return Validator(evaluators, experiment.training.best_metric, experiment.training.patience)


def _make_dev_evaluators(
    experiment: Experiment,
    dataset: PreparedDataset,
    tags: list[LanguageTags],
    train_directions: list[Direction],
    device: torch.device,
) -> list[DevEvaluator]:
    """Make the evaluators for which the dev split has text. Without dev text, there are none."""
    store, settings = dataset.token_store(Split.DEV), experiment.validation
    evaluators: list[DevEvaluator] = []
    if settings.num_loss_pairs and any(map(PairIndex(store).num_pairs, train_directions)):
        unweighted: dict[str, object] = {"temperature": None, "direction_weights": {}, "target_weights": {}}
        batches = experiment.batches.model_copy(update=unweighted)
        loader = BatchLoader(store, train_directions, batches, tags, DEV_SAMPLE_SEED)
        check_max_positions(experiment.model, loader.max_tokens_per_sentence)
        evaluators.append(DevLossEvaluator(loader, settings.num_loss_pairs, device, experiment.training.precision))
    decoding = experiment.decoding.with_beam_size_and_scaled_batch(1).model_copy(update={"pivot": None})

    def translator(model: Transformer) -> Translator:
        trained = TrainedModel(model, dataset.vocabulary, tuple(train_directions), {})
        translator = Translator.from_trained_model(trained, decoding, device)
        return translator.with_text_options(split="never", warn=False)

    identifier = experiment.evaluation.language_identifier
    evaluators += make_dev_evaluators(dataset, train_directions, settings, identifier, translator)
    is_wanted = settings.num_loss_pairs or settings.num_supervised_sentences or settings.num_zero_shot_sentences
    if is_wanted and not evaluators:
        print_status("The corpus has no dev text in the training directions: training without validation.")
    return evaluators


def initialize_model(experiment: Experiment, dataset: PreparedDataset) -> Transformer:
    """Create an untrained model for a dataset; the seed of the experiment determines its weights."""
    vocabulary = dataset.vocabulary
    check_weights_fit(experiment.model, len(vocabulary.subword_model))
    torch.manual_seed(experiment.seed)
    return Transformer(experiment.model, experiment.guidance, len(vocabulary.subword_model), len(vocabulary.languages))
