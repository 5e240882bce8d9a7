"""A trial: a few real steps with a model that is thrown away, for how long they take and what memory they need."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import torch

from manyglot.batches.loader import BatchLoader, DataPosition, PlannedBatch
from manyglot.devices import device_name
from manyglot.distributed import DistributedContext
from manyglot.model.transformer import Transformer
from manyglot.training.checkpoint import RunState
from manyglot.training.step import make_training_step, report_step_out_of_memory
from manyglot.training.trainer import TrainingSettings, accumulate_gradients, iter_update_batches, step_optimizer

try:
    import resource
except ImportError:  # there is none on Windows, where the memory is not measured
    resource = None  # type: ignore[assignment]

MIN_TIMED_STEPS, MAX_TIMED_STEPS, MIN_TIMING_SECONDS = 4, 20, 20.0
"""Steps of a trial: so many at least, and more until they have taken so long."""


@dataclass(frozen=True)
class StepTiming:
    """What a few steps have shown."""

    device_name: str
    num_steps: int
    seconds_per_step: float
    """Of a step, on average."""
    tokens_per_second: float
    """Target tokens."""
    peak_memory_bytes: int | None
    """The most bytes in use: on a GPU those that PyTorch took, else those of the whole process."""
    total_memory_bytes: int | None
    """Of the GPU."""


def time_steps(
    model: Transformer,
    optimizer: torch.optim.Optimizer,
    loader: BatchLoader,
    state: RunState,
    settings: TrainingSettings,
    seed: int,
    device: torch.device,
) -> StepTiming:
    """Train a few steps from a state on, twice, and time the second round: in the first one kernels are compiled."""
    training_step = make_training_step(model, settings.label_smoothing, device, settings.precision, settings.alignment)

    def train_on(batches: Sequence[PlannedBatch]) -> int:
        accumulate_gradients(model, training_step, batches, (seed, state.step + 1), DistributedContext(device))
        step_optimizer(
            model, optimizer, settings, state.step + 1, keep_gradient_buffers=training_step.keeps_gradient_buffers
        )
        return int(sum(batch.num_target_tokens_by_language().sum() for batch in batches))

    def updates() -> Iterator[tuple[list[PlannedBatch], DataPosition]]:
        return iter_update_batches(loader, state.data_position, settings.gradient_accumulation)

    num_steps, start = 0, _synchronized_time(device)
    with report_step_out_of_memory(device):
        for batches, _ in islice(updates(), MAX_TIMED_STEPS):
            train_on(batches)
            num_steps += 1
            if num_steps >= MIN_TIMED_STEPS and _synchronized_time(device) - start > MIN_TIMING_SECONDS:
                break
        start = _synchronized_time(device)
        num_tokens = sum(train_on(batches) for batches, _ in islice(updates(), num_steps))
    seconds = _synchronized_time(device) - start
    return StepTiming(
        device_name(device), num_steps, seconds / num_steps, num_tokens / seconds, *_peak_and_total_memory(device)
    )


def _synchronized_time(device: torch.device) -> float:
    """The time when all that the device has to do is done."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


def _peak_and_total_memory(device: torch.device) -> tuple[int | None, int | None]:
    """The most memory in use so far, and all there is."""
    if device.type == "cuda":
        return torch.cuda.max_memory_reserved(device), torch.cuda.get_device_properties(device).total_memory
    if resource is None:
        return None, None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak * (1 if sys.platform == "darwin" else 1024), None
