"""Callbacks of training: functions that a caller passes to `manyglot.train`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from torch import Tensor


@dataclass(frozen=True)
class TrainingEvent:
    """What every callback receives."""

    step: int
    """The number of updates so far."""
    max_steps: int
    request_stop: Callable[[], None] = field(repr=False)
    """Asks training to save a checkpoint and stop after this step."""


@dataclass(frozen=True)
class StepEvent(TrainingEvent):
    """An update of the weights."""

    learning_rate: float
    num_target_tokens: int
    loss_vector: Tensor = field(repr=False)

    @cached_property
    def loss(self) -> float:
        """Label-smoothed cross-entropy per target token. On a GPU, reading it waits for the step to finish."""
        return float(self.loss_vector[0]) / self.num_target_tokens


@dataclass(frozen=True)
class ValidationEvent(TrainingEvent):
    """A validation."""

    scores: Mapping[str, Any]
    """The metrics by name, such as `dev_bleu`; `directions` has those of each direction."""
    is_best: bool
    """Whether this step is the best so far."""


@dataclass(frozen=True)
class CheckpointEvent(TrainingEvent):
    """A checkpoint that has been written."""

    folder: Path
    """The folder of the checkpoint, which every command accepts as a model."""


@dataclass(frozen=True)
class TrainingCallbacks:
    """Functions that training calls in the main process. An exception in one of them ends the training."""

    on_step: Callable[[StepEvent], object] | None = None
    """Called after every update."""
    on_validation: Callable[[ValidationEvent], object] | None = None
    """Called after every validation."""
    on_checkpoint: Callable[[CheckpointEvent], object] | None = None
    """Called after every checkpoint."""


@dataclass(frozen=True)
class CallbackDispatcher:
    """Creates the events of a run and calls the callbacks."""

    callbacks: TrainingCallbacks
    max_steps: int
    request_stop: Callable[[], None]

    def after_step(self, step: int, learning_rate: float, num_target_tokens: int, loss_vector: Tensor) -> None:
        """Report an update."""
        if self.callbacks.on_step is not None:
            event = StepEvent(step, self.max_steps, self.request_stop, learning_rate, num_target_tokens, loss_vector)
            self.callbacks.on_step(event)

    def after_validation(self, step: int, scores: Mapping[str, Any], *, is_best: bool) -> None:
        """Report a validation."""
        if self.callbacks.on_validation is not None:
            self.callbacks.on_validation(ValidationEvent(step, self.max_steps, self.request_stop, scores, is_best))

    def after_checkpoint(self, step: int, folder: Path) -> None:
        """Report a checkpoint."""
        if self.callbacks.on_checkpoint is not None:
            self.callbacks.on_checkpoint(CheckpointEvent(step, self.max_steps, self.request_stop, folder))
