"""A trial: a few real steps with a model that is thrown away, for how long they take and what memory they need."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

import torch

from manyglot.batches.loader import Loader, Planned
from manyglot.devices import name_of
from manyglot.distributed import DistributedContext
from manyglot.model.transformer import Transformer
from manyglot.training.checkpoint import RunState
from manyglot.training.loop import TrainingSettings, accumulate, step_optimizer, updates_from
from manyglot.training.step import make_step, must_fit_step

try:
    import resource
except ImportError:  # there is none on Windows, where the memory is not measured
    resource = None  # type: ignore[assignment]

LEAST, MOST, SECONDS = 4, 20, 20.0
"""Steps of a trial: so many at least, and more until they have taken so long."""


@dataclass(frozen=True)
class Trial:
    """What a few steps have shown."""

    device: str
    num_steps: int
    seconds: float
    """Of a step, on average."""
    tokens_per_second: float
    """Target tokens."""
    memory: int | None
    """The most bytes in use: on a GPU those that PyTorch took, else those of the whole process."""
    all_memory: int | None
    """Of the GPU."""


def try_out(
    model: Transformer,
    optimizer: torch.optim.Optimizer,
    loader: Loader,
    state: RunState,
    settings: TrainingSettings,
    seed: int,
    device: torch.device,
) -> Trial:
    """Train a few steps from a state on, twice, and time the second round: in the first one kernels are compiled."""
    step = make_step(model, settings.label_smoothing, device, settings.precision, settings.alignment)

    def take(batches: Sequence[Planned]) -> int:
        accumulate(model, step, batches, (seed, state.step + 1), DistributedContext(device))
        step_optimizer(model, optimizer, settings, state.step + 1, keep_gradients=step.keeps_gradients)
        return int(sum(batch.tokens_by_language().sum() for batch in batches))

    num_steps, start = 0, _now(device)
    with must_fit_step(device):
        for batches, _ in islice(updates_from(loader, state.place, settings.accumulation), MOST):
            take(batches)
            num_steps += 1
            if num_steps >= LEAST and _now(device) - start > SECONDS:
                break
        start = _now(device)
        again = islice(updates_from(loader, state.place, settings.accumulation), num_steps)
        tokens = sum(take(batches) for batches, _ in again)
    seconds = _now(device) - start
    return Trial(name_of(device), num_steps, seconds / num_steps, tokens / seconds, *_memory(device))


def _now(device: torch.device) -> float:
    """The time when all that the device has to do is done."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


def _memory(device: torch.device) -> tuple[int | None, int | None]:
    """The most memory in use so far, and all there is."""
    if device.type == "cuda":
        return torch.cuda.max_memory_reserved(device), torch.cuda.get_device_properties(device).total_memory
    if resource is None:
        return None, None
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most * (1 if sys.platform == "darwin" else 1024), None
