"""Timing of a few real training steps, with a model that is discarded: time per step, throughput and memory."""

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
from manyglot.training.step import make_forward_backward_step, report_step_out_of_memory
from manyglot.training.trainer import (
    TrainingSettings,
    accumulate_and_all_reduce_gradients,
    clip_and_step_optimizer,
    iter_update_batches,
)

try:
    import resource
except ImportError:  # Windows has no such module; memory is not measured there
    resource = None  # type: ignore[assignment]

MIN_TIMED_STEPS, MAX_TIMED_STEPS, MIN_TIMING_SECONDS = 4, 20, 20.0
"""The number of timed steps: at least the minimum, then more until this many seconds have passed or the maximum. On a
CPU the minimum is one, because no kernels are compiled and a step of a large model may take a minute."""


@dataclass(frozen=True)
class StepTiming:
    """Time and memory of a few training steps."""

    device_name: str
    num_steps: int
    seconds_per_step: float
    """Mean over the timed steps."""
    tokens_per_second: float
    """Predicted target tokens."""
    peak_memory_bytes: int | None
    """Peak memory: reserved by PyTorch on a GPU, or of the whole process on a CPU."""
    total_memory_bytes: int | None
    """Memory of the GPU; None on a CPU."""


def time_steps(
    model: Transformer,
    optimizer: torch.optim.Optimizer,
    loader: BatchLoader,
    state: RunState,
    settings: TrainingSettings,
    seed: int,
    device: torch.device,
) -> StepTiming:
    """Train a few steps from a state twice and time the second round, because the first one compiles kernels."""
    training_step = make_forward_backward_step(
        model, settings.label_smoothing, device, settings.precision, settings.resolved_alignment
    )

    def train_on(batches: Sequence[PlannedBatch]) -> int:
        accumulate_and_all_reduce_gradients(
            model, training_step, batches, DistributedContext(device), seed=seed, step=state.step + 1
        )
        clip_and_step_optimizer(
            model, optimizer, settings, state.step + 1, keep_gradient_buffers=training_step.keeps_gradient_buffers
        )
        return int(sum(batch.num_target_tokens_by_language().sum() for batch in batches))

    def updates() -> Iterator[tuple[list[PlannedBatch], DataPosition]]:
        return iter_update_batches(loader, state.data_position, settings.gradient_accumulation)

    min_steps = 1 if device.type == "cpu" else MIN_TIMED_STEPS
    num_steps, start = 0, _synchronized_time(device)
    with report_step_out_of_memory(device):
        for batches, _ in islice(updates(), MAX_TIMED_STEPS):
            train_on(batches)
            num_steps += 1
            if num_steps >= min_steps and _synchronized_time(device) - start > MIN_TIMING_SECONDS:
                break
        start = _synchronized_time(device)
        num_tokens = sum(train_on(batches) for batches, _ in islice(updates(), num_steps))
    seconds = _synchronized_time(device) - start
    return StepTiming(
        device_name(device), num_steps, seconds / num_steps, num_tokens / seconds, *_peak_and_total_memory(device)
    )


def _synchronized_time(device: torch.device) -> float:
    """Wait until the device has finished its work and return the time."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


def _peak_and_total_memory(device: torch.device) -> tuple[int | None, int | None]:
    """Return the peak memory so far and the total memory, None where unknown."""
    if device.type == "cuda":
        return torch.cuda.max_memory_reserved(device), torch.cuda.get_device_properties(device).total_memory
    if resource is None:
        return None, None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak * (1 if sys.platform == "darwin" else 1024), None
