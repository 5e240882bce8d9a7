"""The training loop. It trains a model, writes log and checkpoints, and resumes an interrupted run exactly."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
from pydantic import Field
from torch import Tensor

from manyglot.batches.background_verification import BackgroundVerification
from manyglot.batches.loader import BatchLoader, DataPosition, PlannedBatch
from manyglot.config.base_settings import CHANGEABLE_ON_RESUME, MAX_COUNT, ChangeableOnResume, Settings
from manyglot.config.precision import Precision
from manyglot.distributed import DistributedContext, launcher_restarts_failures
from manyglot.errors import ManyglotError, SettingsError
from manyglot.files import write_file
from manyglot.model.model_folder import ModelDescription
from manyglot.model.run_models import checkpoint_folder
from manyglot.model.transformer import Transformer
from manyglot.progress import print_status, progress_bar
from manyglot.training.best_steps import BestMetric
from manyglot.training.callbacks import CallbackDispatcher, TrainingCallbacks
from manyglot.training.checkpoint import (
    RunState,
    flatten_optimizer_state,
    load_latest_intact_checkpoint,
    prune_checkpoints,
    save_checkpoint,
)
from manyglot.training.contrastive_alignment import ContrastiveAlignmentSettings
from manyglot.training.freezing import FrozenWeights
from manyglot.training.fsdp import (
    gather_full_tensors_on_main,
    gather_model_on_main,
    is_sharded,
    local_shard,
    move_or_shard_model,
)
from manyglot.training.loss_meter import LossMeter
from manyglot.training.run_folder import STOP_MARKER_NAME
from manyglot.training.schedule import SCHEDULES_DECAYING_TO_ZERO, ScheduleName, learning_rate_at_step
from manyglot.training.step import ForwardBackwardStep, make_forward_backward_step, report_step_out_of_memory
from manyglot.training.stop_signals import catch_stop_signals
from manyglot.training.throughput import ThroughputMeter
from manyglot.training.trackers import TrackerName, open_trackers
from manyglot.training.training_log import TrainingLog
from manyglot.training.validation import Validator

AdamBeta = Annotated[float, Field(ge=0, lt=1)]


def _max_steps_may_change(settings: TrainingSettings) -> bool:
    """Whether the learning rate of a step is independent of max_steps."""
    return settings.lr_schedule not in SCHEDULES_DECAYING_TO_ZERO


class TrainingSettings(Settings):
    """How the model is trained. The defaults are those of the paper."""

    max_steps: Annotated[int, ChangeableOnResume(condition=_max_steps_may_change)] = Field(100_000, ge=1, le=MAX_COUNT)
    """Stop after this many updates. With lr_schedule cosine or linear, the learning rate reaches zero at this step, so
    a resumed run cannot change it."""
    gradient_accumulation: int = Field(1, ge=1, le=10_000)
    """Batches per update. The effective batch size is this many times batches.max_tokens."""
    learning_rate: float = Field(5e-4, ge=1e-9, le=1)
    """Peak learning rate, reached at the end of the warm-up."""
    lr_schedule: ScheduleName = "inverse_square_root"
    """Decay of the learning rate after the warm-up: inverse_square_root (as in the paper), cosine or linear (to zero at
    max_steps), or constant (no decay)."""
    warmup_steps: int = Field(4000, ge=0, le=MAX_COUNT)
    """Number of updates over which the learning rate rises linearly to its peak."""
    label_smoothing: float = Field(0.1, ge=0, lt=1)
    """Share of the target probability that is spread evenly over the vocabulary."""
    alignment: ContrastiveAlignmentSettings | Literal["auto"] | None = "auto"
    """Contrastive loss that pulls the encoder states of a sentence and its translation together, for zero-shot
    directions. It is not in the paper. auto enables it if there are zero-shot directions, the encoder is not frozen,
    guidance acts in the decoder only, and batches have enough pairs. `{}` always enables it with the defaults below;
    null disables it."""
    adam_betas: tuple[AdamBeta, AdamBeta] = (0.9, 0.98)
    """Adam's decay rates for the first and second moments of the gradients."""
    weight_decay: float = Field(1e-4, ge=0, le=1)
    """Decoupled weight decay, as in the paper's code (its text does not mention it)."""
    max_grad_norm: float | None = Field(None, ge=1e-6, le=1e6)
    """Clip the gradient norm at this value. null disables clipping, as in the paper."""
    precision: Precision = "auto"
    """bfloat16 or float32. auto selects bfloat16 on a GPU and float32 on a CPU."""
    device: Annotated[str, CHANGEABLE_ON_RESUME] = "auto"
    """Where to train: auto (a GPU if there is one, otherwise the CPU), cpu, cuda, or one GPU such as cuda:1."""
    fsdp: Annotated[bool, CHANGEABLE_ON_RESUME] = False
    """Shard weights, gradients and Adam moments over the processes (FSDP), for models too large for one GPU."""
    validate_every: Annotated[int, CHANGEABLE_ON_RESUME] = Field(5000, ge=1, le=MAX_COUNT)
    """Updates between two validations on the dev split. The section `validation` selects the samples."""
    best_metric: Annotated[BestMetric | None, CHANGEABLE_ON_RESUME] = "auto"
    """Metric that selects the best step, whose weights become the final model: dev_bleu (mean over directions, as in
    the paper), dev_chrf, dev_nll, zero_shot_language_accuracy or zero_shot_chrf. While the metric is within chance (up
    to 2 BLEU or 10 chrF++), dev_nll selects the step. auto selects dev_bleu, or dev_nll if validation translates
    nothing. null selects the last step."""
    patience: Annotated[int | None, CHANGEABLE_ON_RESUME] = Field(None, ge=1, le=MAX_COUNT)
    """Stop after this many validations without improvement. null disables early stopping."""
    checkpoint_every: Annotated[int, CHANGEABLE_ON_RESUME] = Field(1000, ge=1, le=MAX_COUNT)
    """Updates between two checkpoints. The best steps are saved as well."""
    keep_last_checkpoints: Annotated[int, CHANGEABLE_ON_RESUME] = Field(2, ge=1, le=MAX_COUNT)
    """Number of most recent checkpoints to keep. `manyglot average --last` needs several."""
    keep_best_checkpoints: Annotated[int, CHANGEABLE_ON_RESUME] = Field(1, ge=1, le=MAX_COUNT)
    """Number of best checkpoints to keep in addition to the most recent ones."""
    log_every: Annotated[int, CHANGEABLE_ON_RESUME] = Field(50, ge=1, le=MAX_COUNT)
    """Updates between two lines of the training log."""
    trackers: Annotated[tuple[TrackerName, ...], CHANGEABLE_ON_RESUME] = ()
    """Experiment trackers that receive the log too: tensorboard (files in the run folder) and wandb. Each needs an
    optional dependency."""

    @property
    def resolved_alignment(self) -> ContrastiveAlignmentSettings | None:
        """The alignment settings after `resolve_alignment`."""
        assert self.alignment != "auto", "`resolve_alignment` decides from the model and the data"
        return self.alignment


def train(
    model: Transformer,
    loader: BatchLoader,
    settings: TrainingSettings,
    run: Path,
    seed: int,
    validator: Validator,
    distributed: DistributedContext,
    description: ModelDescription,
    verification: BackgroundVerification,
    callbacks: TrainingCallbacks = TrainingCallbacks(),
    frozen: FrozenWeights | None = None,
) -> RunState:
    """Train from the last checkpoint of the run, if any, until the run is finished or a signal asks it to stop.

    The checkpoints are model folders with this description. None is saved unless the verification of the data passes.
    The callbacks are called in the main process.
    """
    check_accumulation_divisible(settings, distributed)
    move_or_shard_model(model, settings.fsdp, distributed)
    frozen = FrozenWeights() if frozen is None else frozen
    frozen.apply(model)
    optimizer = make_optimizer(model, settings)
    state = resume_from_last_checkpoint(run, model, optimizer, settings)
    if state.step:
        print_status(f"Resuming from step {state.step:,}.")
    if settings.warmup_steps >= settings.max_steps:
        print_status("training.warmup_steps is not below max_steps, so the learning rate never decays. Lower it.")
    if state.step < settings.max_steps:
        state = replace(state, best_steps=validator.resume_best_steps(state.best_steps, settings.validate_every))
    distributed.barrier()  # no process writes before all of them have read
    if state.step and distributed.is_main:
        prune_checkpoints(run / "checkpoints", state, settings.keep_last_checkpoints)  # if a kill prevented it
    loss_meter = LossMeter(run, state.unlogged_losses)
    training_step = make_forward_backward_step(
        model, settings.label_smoothing, distributed.device, settings.precision, settings.resolved_alignment
    )
    updates = iter_update_batches(loader, state.data_position, settings.gradient_accumulation)
    must_stop = False
    with (
        open_trackers(settings.trackers if distributed.is_main else (), run, state.step) as trackers,
        progress_bar("training", settings.max_steps, done=state.step) as display,
        catch_stop_signals() as stop_request,
    ):
        throughput = ThroughputMeter(model, settings.precision, distributed, state.unlogged_losses)
        log = TrainingLog(run / "log.jsonl", state, loader.languages, throughput, trackers, enabled=distributed.is_main)
        events = CallbackDispatcher(
            callbacks if distributed.is_main else TrainingCallbacks(),
            settings.max_steps,
            stop_request.request_from_callback,
        )
        while not is_finished(state, settings) and not must_stop:
            batches, data_position = next(updates)
            state = RunState(state.step + 1, data_position, best_steps=state.best_steps)
            with report_step_out_of_memory(distributed.device):
                loss_vector = accumulate_and_all_reduce_gradients(
                    model, training_step, batches, distributed, seed=seed, step=state.step
                )
                loss_meter.add_update(state.step, batches, loss_vector)
                clip_and_step_optimizer(
                    model,
                    optimizer,
                    settings,
                    state.step,
                    frozen,
                    keep_gradient_buffers=training_step.keeps_gradient_buffers,
                )
            learning_rate = optimizer.param_groups[0]["lr"]
            events.after_step(state.step, learning_rate, count_target_tokens(batches), loss_vector)
            is_logged = _is_due(state.step, settings.log_every, settings)
            if is_logged:
                log.log_training(state, loss_meter.wait_for_totals(), learning_rate)
                loss_meter = LossMeter(run)
            if _is_due(state.step, settings.validate_every, settings) and validator.evaluators:
                check_weights_finite(model, state.step, distributed)
                with log.pause_throughput():
                    state, scores = _validate_and_update_best(
                        model, state, settings.keep_best_checkpoints, validator, log, distributed
                    )
                    events.after_validation(state.step, scores, is_best=state.best_steps.steps[:1] == [state.step])
            if is_finished(state, settings) and not is_logged:  # early stopping
                log.log_training(state, loss_meter.wait_for_totals(), learning_rate)
                loss_meter = LossMeter(run)
            must_stop = distributed.any_process(stop_request.is_requested or verification.found_damage)
            must_save = must_stop or is_finished(state, settings) or state.step in state.best_steps.steps
            if must_save or _is_due(state.step, settings.checkpoint_every, settings):
                verification.raise_if_damaged()
                state = replace(state, unlogged_losses=loss_meter.wait_for_totals())
                check_weights_finite(model, state.step, distributed)
                log.flush_to_disk()
                keep_last = settings.keep_last_checkpoints
                _save_checkpoint_on_main(
                    run / "checkpoints", model, optimizer, state, keep_last, distributed, description
                )
                events.after_checkpoint(state.step, checkpoint_folder(run / "checkpoints", state.step))
                must_stop = distributed.any_process(stop_request.is_requested)
            display.advance(note=log.progress_note)
    if stop_request.is_from_callback and launcher_restarts_failures() and not is_finished(state, settings):
        write_file(run / STOP_MARKER_NAME, "")
    validator.report_time()
    if is_finished(state, settings) and state.step < settings.max_steps:
        best_steps = state.best_steps
        metric = best_steps.scores[0].metric if best_steps.scores else validator.best_metric
        num_validations = best_steps.num_validations_without_improvement
        print_status(f"Stopped at step {state.step:,}: {metric} has not improved for {num_validations} validations.")
    return state


def is_finished(state: RunState, settings: TrainingSettings) -> bool:
    """Whether a run has reached max_steps or stopped early."""
    num_validations = state.best_steps.num_validations_without_improvement
    return state.step == settings.max_steps or num_validations >= (settings.patience or math.inf)


def make_optimizer(model: Transformer, settings: TrainingSettings) -> torch.optim.AdamW:
    """Create AdamW with the settings of the run."""
    return torch.optim.AdamW(
        [parameter for parameter in model.parameters() if parameter.requires_grad],
        betas=settings.adam_betas,
        weight_decay=settings.weight_decay,
        fused=True,
    )


def resume_from_last_checkpoint(
    run: Path, model: Transformer, optimizer: torch.optim.Optimizer, settings: TrainingSettings
) -> RunState:
    """Restore the last intact checkpoint, if any; raise an error if it is beyond max_steps."""
    state = load_latest_intact_checkpoint(run / "checkpoints", model, optimizer)
    if state.step > settings.max_steps:
        raise SettingsError(
            f"training.max_steps: the run is already at step {state.step}, beyond {settings.max_steps}. Raise it."
        )
    return state


def check_accumulation_divisible(settings: TrainingSettings, distributed: DistributedContext) -> None:
    """Raise an error if the batches of an update cannot be divided evenly among the processes."""
    if settings.gradient_accumulation % distributed.world_size:
        raise SettingsError(
            f"training.gradient_accumulation: {settings.gradient_accumulation} batches cannot be divided evenly "
            f"among {distributed.world_size} processes. Use a multiple of {distributed.world_size}; lower "
            f"batches.max_tokens in proportion to keep the effective batch size."
        )


def check_weights_finite(model: Transformer, step: int, distributed: DistributedContext) -> None:
    """Raise an error if a weight is NaN or infinite."""
    is_finite = all(bool(local_shard(parameter).isfinite().all()) for parameter in model.parameters())
    if distributed.any_process(not is_finite):
        raise ManyglotError(f"A weight is NaN or infinite after step {step}. Lower training.learning_rate.")


def accumulate_and_all_reduce_gradients(
    model: Transformer,
    training_step: ForwardBackwardStep,
    batches: Sequence[PlannedBatch],
    distributed: DistributedContext,
    *,
    seed: int,
    step: int,
) -> Tensor:
    """Accumulate the gradients of the mean loss per target token over all batches of an update, in all processes.

    Dropout depends only on the seed of the run, the step and the batch number, so a resumed run repeats it exactly.
    Returns the loss vector (`BatchLoss.to_vector`), summed over all batches and processes.
    """
    num_tokens = count_target_tokens(batches)
    loss_vectors: list[Tensor] = []
    for batch_number, batch in distributed.strided_share(batches):
        torch.manual_seed((seed * 1_000_003 + step) * 1_009 + batch_number)
        loss_vectors += [training_step(part, 1 / num_tokens) for part in training_step.pack(batch.load())]
    loss_vector = torch.stack(loss_vectors).sum(dim=0)
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    # FSDP has already reduced the gradients of a sharded model.
    distributed.all_reduce_sum([loss_vector] if is_sharded(model) else [loss_vector, *gradients])
    return loss_vector


def count_target_tokens(batches: Sequence[PlannedBatch]) -> int:
    """Return the number of target tokens of an update."""
    return int(sum(batch.num_target_tokens_by_language().sum() for batch in batches))


def clip_and_step_optimizer(
    model: Transformer,
    optimizer: torch.optim.Optimizer,
    settings: TrainingSettings,
    step: int,
    frozen: FrozenWeights | None = None,
    *,
    keep_gradient_buffers: bool = False,
) -> None:
    """Clip the gradients, set the learning rate of the step, update the weights and reset the gradients.

    With `keep_gradient_buffers`, gradients are zeroed in place; otherwise they are set to None.
    """
    if frozen is not None:
        frozen.mask_gradients()
    if settings.max_grad_norm is not None:
        torch.nn.utils.clip_grad_norm_(model.parameters(), settings.max_grad_norm)
    for group in optimizer.param_groups:
        group["lr"] = learning_rate_at_step(
            settings.lr_schedule, step, settings.learning_rate, settings.warmup_steps, settings.max_steps
        )
    optimizer.step()
    if frozen is not None:
        frozen.restore()
    optimizer.zero_grad(set_to_none=not keep_gradient_buffers)


def _validate_and_update_best(
    model: Transformer,
    state: RunState,
    keep_best_checkpoints: int,
    validator: Validator,
    log: TrainingLog,
    distributed: DistributedContext,
) -> tuple[RunState, Mapping[str, Any]]:
    """Validate on the main process and broadcast the scores, so that all processes update their best steps equally.

    Return the new state, and the scores in the main process.
    """
    full_model = gather_model_on_main(model, distributed)
    scores = validator(full_model) if distributed.is_main else {}
    value, loss = (distributed.broadcast(number) for number in validator.ranking_values(scores))
    best_steps = state.best_steps.with_validation(state.step, value, loss, keep_best_checkpoints)
    state = replace(state, best_steps=best_steps)
    log.log_validation(state, scores)
    return state, scores


def _save_checkpoint_on_main(
    folder: Path,
    model: Transformer,
    optimizer: torch.optim.Optimizer,
    state: RunState,
    keep_last: int,
    distributed: DistributedContext,
    description: ModelDescription,
) -> None:
    """Gather the weights and the optimizer state of all processes and write a checkpoint on the main process."""
    weights, moments = (
        gather_full_tensors_on_main(tensors, distributed)
        for tensors in (model.state_dict(), flatten_optimizer_state(model, optimizer))
    )
    if distributed.is_main:
        save_checkpoint(folder, weights, moments, state, keep_last, description)


def iter_update_batches(
    loader: BatchLoader, data_position: DataPosition, gradient_accumulation: int
) -> Iterator[tuple[list[PlannedBatch], DataPosition]]:
    """Yield the batches of each update and the data position after them."""
    batches = loader.iter_planned_batches(data_position)
    while True:
        update = list(itertools.islice(batches, gradient_accumulation))
        yield [batch for batch, _ in update], update[-1][1]


def _is_due(step: int, every: int, settings: TrainingSettings) -> bool:
    return step % every == 0 or step == settings.max_steps
