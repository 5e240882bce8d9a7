"""The learning rate: a linear warm-up, then the inverse square root of the step."""

from __future__ import annotations

import math


def inverse_square_root(step: int, peak: float, warmup_steps: int, initial: float = 1e-7) -> float:
    """The learning rate of a step, counted from 1; it reaches its peak at the end of the warm-up."""
    if step < warmup_steps:
        return initial + (peak - initial) * step / warmup_steps
    return peak * math.sqrt(max(warmup_steps, 1) / step)
