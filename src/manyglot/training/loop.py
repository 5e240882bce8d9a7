"""The training loop: batches in, a trained model and a log out; interrupted runs go on exactly where they were."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor

from manyglot.batches.loader import Loader, Place, Planned
from manyglot.config.settings import RESUMABLE, Resumable, Settings
from manyglot.devices import Precision
from manyglot.distributed import DistributedContext
from manyglot.errors import ManyglotError, SettingsError
from manyglot.model.transformer import Transformer
from manyglot.progress import bar, say
from manyglot.training.alignment import AlignmentSettings
from manyglot.training.best import BestBy
from manyglot.training.checkpoint import RunState, load_latest, optimizer_tensors, save_checkpoint
from manyglot.training.log import Log
from manyglot.training.loss_meter import LossMeter
from manyglot.training.schedule import TO_ZERO, ScheduleName, learning_rate
from manyglot.training.sharding import gathered, is_sharded, own_part, place_model, whole_model
from manyglot.training.speed import Speed
from manyglot.training.step import Step, make_step, must_fit_step
from manyglot.training.stopping import wish_to_stop
from manyglot.training.trackers import TrackerName, opened
from manyglot.training.validation import Validation

Rate = Annotated[float, Field(ge=0, lt=1)]


def _ends_anywhere(settings: TrainingSettings) -> bool:
    """Whether the learning rate of a step does not depend on the last one."""
    return settings.schedule not in TO_ZERO


class TrainingSettings(Settings):
    """How the model learns; the defaults are the paper's."""

    max_steps: Annotated[int, Resumable(when=_ends_anywhere)] = Field(100_000, ge=1)
    """Stop after this many updates. With the schedules cosine and linear, which end at zero there, it is fixed."""
    accumulation: int = Field(1, ge=1)
    """Batches whose gradients make one update: the real batch is this many times batches.max_tokens."""
    learning_rate: float = Field(5e-4, gt=0)
    """The peak, reached at the end of the warm-up."""
    schedule: ScheduleName = "inverse_square_root"
    """How the learning rate falls after the warm-up: with the inverse square root of the step (the paper), by a cosine
    or a line to zero at max_steps, or not at all (constant)."""
    warmup_steps: int = Field(4000, ge=0)
    """Updates over which the learning rate rises."""
    label_smoothing: float = Field(0.1, ge=0, lt=1)
    """Share of the probability given to all symbols alike."""
    alignment: AlignmentSettings | None = None
    """A second aim, for directions without training: that the encoder gives a sentence and its translation like states
    (`{}` with the defaults below). It is not in the paper; null does without."""
    betas: tuple[Rate, Rate] = (0.9, 0.98)
    """Adam's two decay rates."""
    weight_decay: float = Field(1e-4, ge=0)
    """Decoupled weight decay (not in the paper's text, but in its code)."""
    clip_norm: float | None = Field(None, gt=0)
    """Scale gradients down to this norm; null does not, as in the paper."""
    precision: Precision = "auto"
    """auto computes in bfloat16 on a GPU and in float32 on a CPU."""
    device: Annotated[str, RESUMABLE] = "auto"
    """auto, cpu, cuda or cuda:1."""
    shard: Annotated[bool, RESUMABLE] = False
    """Share the weights, gradients and moments out among the processes, for a model that is too large for one GPU."""
    validate_every: Annotated[int, RESUMABLE] = Field(5000, ge=1)
    """Updates between two measurements on the dev split; `validation` says what is measured."""
    best_by: Annotated[BestBy | None, RESUMABLE] = "auto"
    """What tells the best step, whose weights the model gets in the end: dev_bleu (the mean over the directions, as in
    the paper), dev_chrf, dev_nll, zero_shot_language_accuracy or zero_shot_chrf. auto takes dev_bleu, or dev_nll where
    nothing is translated; null takes the last step."""
    patience: Annotated[int | None, RESUMABLE] = Field(None, ge=1)
    """Stop when so many measurements in a row have not been better than the best; null never does."""
    checkpoint_every: Annotated[int, RESUMABLE] = Field(1000, ge=1)
    """Updates between two checkpoints; a step that is among the best has one too."""
    keep_checkpoints: Annotated[int, RESUMABLE] = Field(2, ge=1)
    """How many of the last checkpoints to keep."""
    keep_best: Annotated[int, RESUMABLE] = Field(1, ge=1)
    """How many of the best checkpoints to keep, beside the last."""
    log_every: Annotated[int, RESUMABLE] = Field(50, ge=1)
    """Updates between two lines of the log."""
    trackers: Annotated[tuple[TrackerName, ...], RESUMABLE] = ()
    """Where the log goes as well: tensorboard (into the run's folder) and wandb; each is an extra to install."""


def train(
    model: Transformer,
    loader: Loader,
    settings: TrainingSettings,
    run: Path,
    seed: int,
    validation: Validation,
    distributed: DistributedContext,
) -> RunState:
    """Train until the run is finished or we are asked to stop, from the last checkpoint of the run if it has one."""
    check_shares(settings, distributed)
    place_model(model, settings.shard, distributed)
    optimizer = make_optimizer(model, settings)
    state = last_state(run, model, optimizer, settings)
    if state.step:
        say(f"Going on from step {state.step:,}.")
    if settings.warmup_steps >= settings.max_steps:
        say("training.warmup_steps: the learning rate rises until the end and never reaches its peak. Fewer are usual.")
    if state.step < settings.max_steps:
        state = replace(state, best=validation.begin(state.best, settings.validate_every))
    distributed.wait()  # nobody writes before all have read
    losses = LossMeter(run, state.unlogged)
    step = make_step(model, settings.label_smoothing, distributed.device, settings.precision, settings.alignment)
    updates = updates_from(loader, state.place, settings.accumulation)
    stop = False
    with (
        opened(settings.trackers if distributed.is_main else (), run, state.step) as trackers,
        bar("training", settings.max_steps, done=state.step) as display,
        wish_to_stop() as wish,
    ):
        speed = Speed(model, settings.precision, distributed, state.unlogged)
        log = Log(run / "log.jsonl", state, loader.languages, speed, trackers, writes=distributed.is_main)
        while not is_finished(state, settings) and not stop:
            batches, place = next(updates)
            state = RunState(state.step + 1, place, best=state.best)
            with must_fit_step(distributed.device):
                losses.add(state.step, batches, accumulate(model, step, batches, (seed, state.step), distributed))
                step_optimizer(model, optimizer, settings, state.step, keep_gradients=step.keeps_gradients)
            stop = distributed.any(wish.stop)
            logged = _due(state.step, settings.log_every, settings)
            if logged:
                log.training(state, losses.settle(), optimizer.param_groups[0]["lr"])
                losses = LossMeter(run)
            if _due(state.step, settings.validate_every, settings) and validation.measures:
                check_finite(model, state.step, distributed)
                with log.paused():
                    state = _validate(model, state, settings.keep_best, validation, log, distributed)
            if is_finished(state, settings) and not logged:  # it stops early
                log.training(state, losses.settle(), optimizer.param_groups[0]["lr"])
                losses = LossMeter(run)
            kept = stop or is_finished(state, settings) or state.step in state.best.steps
            if kept or _due(state.step, settings.checkpoint_every, settings):
                state = replace(state, unlogged=losses.settle())
                check_finite(model, state.step, distributed)
                _save(run / "checkpoints", model, optimizer, state, settings.keep_checkpoints, distributed)
            display.advance(note=log.note)
    validation.end()
    if is_finished(state, settings) and state.step < settings.max_steps:
        say(f"Stopped at step {state.step:,}: {validation.metric} was not better {state.best.waited} times in a row.")
    return state


def is_finished(state: RunState, settings: TrainingSettings) -> bool:
    """Whether a run has made all its steps, or has not got better for too long."""
    return state.step == settings.max_steps or state.best.waited >= (settings.patience or math.inf)


def make_optimizer(model: Transformer, settings: TrainingSettings) -> torch.optim.AdamW:
    """Adam with decoupled weight decay."""
    return torch.optim.AdamW(model.parameters(), betas=settings.betas, weight_decay=settings.weight_decay, fused=True)


def last_state(run: Path, model: Transformer, optimizer: torch.optim.Optimizer, settings: TrainingSettings) -> RunState:
    """Restore the last checkpoint of a run, if it has one and is not beyond its end."""
    state = load_latest(run / "checkpoints", model, optimizer)
    if state.step > settings.max_steps:
        raise SettingsError(
            f"training.max_steps: the run is already at step {state.step}, beyond {settings.max_steps}."
        )
    return state


def check_shares(settings: TrainingSettings, distributed: DistributedContext) -> None:
    """Refuse a number of processes that the batches of an update cannot be dealt out to."""
    if settings.accumulation % distributed.size:
        raise SettingsError(
            f"training.accumulation: {settings.accumulation} batches cannot be shared by {distributed.size} processes "
            f"alike. Use a multiple of {distributed.size}, with smaller batches if the update should stay as large."
        )


def check_finite(model: Transformer, step: int, distributed: DistributedContext) -> None:
    """Refuse to keep weights that are not numbers."""
    if distributed.any(not all(bool(own_part(parameter).isfinite().all()) for parameter in model.parameters())):
        raise ManyglotError(f"The weights are not numbers after step {step}. Lower training.learning_rate.")


def accumulate(
    model: Transformer, step: Step, batches: Sequence[Planned], seed: tuple[int, int], distributed: DistributedContext
) -> Tensor:
    """Add the gradients of the mean loss of a token over all the batches of an update.

    Dropout depends on the seed of the run, the step and the number of the batch, not on history. Returns the loss
    vector (`Loss.to_vector`), summed over all batches.
    """
    tokens = int(sum(batch.tokens_by_language().sum() for batch in batches))
    vectors: list[Tensor] = []
    for number, batch in distributed.share(batches):
        torch.manual_seed((seed[0] * 1_000_003 + seed[1]) * 1_009 + number)
        vectors += [step(part, 1 / tokens) for part in step.pack(batch.load())]
    total = torch.stack(vectors).sum(dim=0)
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    distributed.all_reduce([total] if is_sharded(model) else [total, *gradients])  # parts are added up as they come
    return total


def step_optimizer(
    model: Transformer,
    optimizer: torch.optim.Optimizer,
    settings: TrainingSettings,
    step: int,
    *,
    keep_gradients: bool = False,
) -> None:
    """Move the weights by the gathered gradients, and forget these, or set them to zero where they are."""
    if settings.clip_norm is not None:
        torch.nn.utils.clip_grad_norm_(model.parameters(), settings.clip_norm)
    for group in optimizer.param_groups:
        group["lr"] = learning_rate(
            settings.schedule, step, settings.learning_rate, settings.warmup_steps, settings.max_steps
        )
    optimizer.step()
    optimizer.zero_grad(set_to_none=not keep_gradients)


def _validate(
    model: Transformer,
    state: RunState,
    keep_best: int,
    validation: Validation,
    log: Log,
    distributed: DistributedContext,
) -> RunState:
    """Let the process that leads measure the whole model; all learn what tells the best step, and decide alike."""
    whole = whole_model(model, distributed)
    measured = validation(whole) if distributed.is_main else {}
    value = distributed.broadcast(validation.value(measured))
    state = replace(state, best=state.best.after(state.step, value, keep_best))
    log.validation(state, measured)
    return state


def _save(
    folder: Path,
    model: Transformer,
    optimizer: torch.optim.Optimizer,
    state: RunState,
    keep: int,
    distributed: DistributedContext,
) -> None:
    """Let the process that leads write a checkpoint of what all have together."""
    weights, moments = (
        gathered(each, distributed) for each in (model.state_dict(), optimizer_tensors(model, optimizer))
    )
    if distributed.is_main:
        save_checkpoint(folder, weights, moments, state, keep)


def updates_from(loader: Loader, place: Place, accumulation: int) -> Iterator[tuple[list[Planned], Place]]:
    """The batches of each update, with the place after them."""
    batches = loader.planned(place)
    while True:
        taken = list(itertools.islice(batches, accumulation))
        yield [batch for batch, _ in taken], taken[-1][1]


def _due(step: int, every: int, settings: TrainingSettings) -> bool:
    return step % every == 0 or step == settings.max_steps
