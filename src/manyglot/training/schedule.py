"""The learning rate: a linear warm-up to the peak, then one of several ways down."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

ScheduleName = Literal["inverse_square_root", "cosine", "linear", "constant"]

INITIAL = 1e-7
"""The rate that the warm-up begins with."""

FALLS: dict[ScheduleName, Callable[[int, int, int], float]] = {
    "inverse_square_root": lambda step, warmup, last: math.sqrt(max(warmup, 1) / step),
    "cosine": lambda step, warmup, last: (1 + math.cos(math.pi * _way(step, warmup, last))) / 2,
    "linear": lambda step, warmup, last: 1 - _way(step, warmup, last),
    "constant": lambda step, warmup, last: 1.0,
}
"""The share of the peak at a step after the warm-up, from the steps of the warm-up and of the run."""
TO_ZERO: tuple[ScheduleName, ...] = ("cosine", "linear")
"""Those that depend on the last step."""


def learning_rate(name: ScheduleName, step: int, peak: float, warmup_steps: int, max_steps: int) -> float:
    """The rate of a step, counted from 1; it reaches its peak at the end of the warm-up."""
    if step < warmup_steps:
        return INITIAL + (peak - INITIAL) * step / warmup_steps
    return peak * FALLS[name](step, warmup_steps, max_steps)


def _way(step: int, warmup: int, last: int) -> float:
    """How far a step is from the end of the warm-up to just after the last step, so that the last one learns too."""
    return (step - warmup) / (last + 1 - warmup) if step <= last else 1.0
