"""Training throughput: target tokens per second and model FLOPs utilization (MFU)."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from manyglot.config.precision import Precision
from manyglot.devices import bfloat16_peak_flops
from manyglot.distributed import DistributedContext
from manyglot.model.training_cost import training_flops
from manyglot.model.transformer import Transformer
from manyglot.training.loss import LossTotals


class ThroughputMeter:
    """Measures the throughput between two lines of the log.

    After a resumption the first totals include tokens that an earlier process trained on. `earlier_totals` excludes
    them.
    """

    def __init__(
        self, model: Transformer, precision: Precision, distributed: DistributedContext, earlier_totals: LossTotals
    ) -> None:
        self.settings, self.num_symbols = model.settings, model.embedding.num_embeddings
        peak = bfloat16_peak_flops(distributed.device, precision)
        self.peak_flops = peak and peak * distributed.world_size
        self.earlier_totals, self.lap_start = earlier_totals, time.monotonic()

    def measure_and_restart(self, totals: LossTotals) -> dict[str, float]:
        """Return target tokens per second, and MFU if the peak speed of the device is known; then restart the clock."""
        num_target_tokens = sum(totals.target_tokens_by_language) - sum(self.earlier_totals.target_tokens_by_language)
        num_source_tokens = totals.num_source_tokens - self.earlier_totals.num_source_tokens
        now = time.monotonic()
        seconds = now - self.lap_start
        self.earlier_totals, self.lap_start = LossTotals(), now
        speed = {"tokens_per_second": num_target_tokens / seconds}
        if self.peak_flops:
            operations = training_flops(self.settings, self.num_symbols, num_source_tokens, num_target_tokens)
            speed["mfu"] = operations / seconds / self.peak_flops
        return speed

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Stop the clock during the block."""
        start = time.monotonic()
        yield
        self.lap_start += time.monotonic() - start
