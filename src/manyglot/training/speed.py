"""How fast training is: tokens a second, and the share of the chip's speed that is used (MFU)."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from manyglot.devices import Precision, peak_speed
from manyglot.distributed import DistributedContext
from manyglot.model.cost import training_operations
from manyglot.model.transformer import Transformer
from manyglot.training.loss import Sums


class Speed:
    """A stopwatch for the updates between two lines of the log; their first ones may be an earlier process's."""

    def __init__(self, model: Transformer, precision: Precision, distributed: DistributedContext, before: Sums) -> None:
        self.settings, self.num_symbols = model.settings, model.embedding.num_embeddings
        peak = peak_speed(distributed.device, precision)
        self.peak = peak and peak * distributed.size
        self.before, self.since = before, time.monotonic()

    def lap(self, sums: Sums) -> dict[str, float]:
        """Target tokens a second, and the MFU where the chip's speed is known; then begin anew."""
        target = sum(sums.tokens) - sum(self.before.tokens)
        source = sums.source_tokens - self.before.source_tokens
        now = time.monotonic()
        seconds = now - self.since
        self.before, self.since = Sums(), now
        speed = {"tokens_per_second": target / seconds}
        if self.peak:
            operations = training_operations(self.settings, self.num_symbols, source, target)
            speed["mfu"] = operations / seconds / self.peak
        return speed

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Leave out time that is not training."""
        start = time.monotonic()
        yield
        self.since += time.monotonic() - start
