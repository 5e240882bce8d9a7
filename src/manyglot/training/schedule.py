"""Learning rate schedules: a linear warm-up to the peak, then a decay."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

ScheduleName = Literal["inverse_square_root", "cosine", "linear", "constant"]

INITIAL_LEARNING_RATE = 1e-7
"""Learning rate at the start of the warm-up."""

DECAY_FACTORS: dict[ScheduleName, Callable[[int, int, int], float]] = {
    "inverse_square_root": lambda step, warmup_steps, max_steps: math.sqrt(max(warmup_steps, 1) / step),
    "cosine": lambda step, warmup_steps, max_steps: (
        (1 + math.cos(math.pi * _decay_progress(step, warmup_steps, max_steps))) / 2
    ),
    "linear": lambda step, warmup_steps, max_steps: 1 - _decay_progress(step, warmup_steps, max_steps),
    "constant": lambda step, warmup_steps, max_steps: 1.0,
}
"""Functions of (step, warmup_steps, max_steps) that return the fraction of the peak at a step after the warm-up."""
SCHEDULES_DECAYING_TO_ZERO: tuple[ScheduleName, ...] = ("cosine", "linear")
"""Schedules that depend on max_steps."""


def learning_rate_at_step(name: ScheduleName, step: int, peak: float, warmup_steps: int, max_steps: int) -> float:
    """Return the learning rate of a step, counted from 1. The peak is reached at the end of the warm-up."""
    if step < warmup_steps:
        return INITIAL_LEARNING_RATE + (peak - INITIAL_LEARNING_RATE) * step / warmup_steps
    return peak * DECAY_FACTORS[name](step, warmup_steps, max_steps)


def _decay_progress(step: int, warmup_steps: int, max_steps: int) -> float:
    """Return the completed fraction of the decay. It reaches 1 only after max_steps, so the last step still learns."""
    return (step - warmup_steps) / (max_steps + 1 - warmup_steps) if step <= max_steps else 1.0
