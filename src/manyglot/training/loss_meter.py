"""Sums the losses of updates for the log and stops the run if a loss is NaN or infinite."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from manyglot.batches.loader import PlannedBatch
from manyglot.errors import ManyglotError
from manyglot.files import report_unwritable, write_json
from manyglot.training.loss import LossParts, LossTotals


class LossMeter:
    """Sums the losses of updates. GPU losses are read one update later, so that the GPU never idles."""

    def __init__(self, run: Path, totals: LossTotals | None = None) -> None:
        self.run, self.totals = run, totals or LossTotals()
        self._pending: list[tuple[int, Sequence[PlannedBatch], Tensor, torch.cuda.Event | None]] = []

    def add_update(self, step: int, batches: Sequence[PlannedBatch], loss_vector: Tensor) -> None:
        """Queue the loss vector of an update, and add the earlier ones that are complete."""
        ready = None
        if loss_vector.is_cuda:  # reading it now would wait for all queued kernels, so copy it asynchronously
            on_cpu = torch.empty_like(loss_vector, device="cpu", pin_memory=True)
            loss_vector, ready = on_cpu.copy_(loss_vector, non_blocking=True), torch.cuda.Event()  # type: ignore[no-untyped-call]
            ready.record()
        self._pending.append((step, batches, loss_vector, ready))
        self._collect(num_left=0 if ready is None else 1)

    def wait_for_totals(self) -> LossTotals:
        """Wait for all queued updates and return the totals."""
        self._collect(num_left=0)
        return self.totals

    def _collect(self, num_left: int) -> None:
        while len(self._pending) > num_left:
            step, batches, loss_vector, ready = self._pending.pop(0)
            if ready is not None:
                ready.synchronize()
            tokens_L = np.sum([batch.num_target_tokens_by_language() for batch in batches], axis=0)
            loss = LossParts.from_vector(loss_vector, num_languages=len(tokens_L))
            if not (math.isfinite(loss.label_smoothed) and math.isfinite(loss.contrastive_alignment or 0.0)):
                raise ManyglotError(self._dump_non_finite_update(step, batches))
            num_source_tokens = sum(batch.num_source_tokens() for batch in batches)
            self.totals += LossTotals(
                loss.label_smoothed,
                loss.nll_by_language,
                tokens_L.tolist(),
                num_source_tokens,
                loss.contrastive_alignment,
            )

    def _dump_non_finite_update(self, step: int, batches: Sequence[PlannedBatch]) -> str:
        """Write the sentence pairs of the update to a file; return an error message that names it."""
        lines = [line for batch in batches for line in batch.text_locations()]
        path = self.run / f"not-a-number-{step}.json"
        with report_unwritable(path):
            write_json(path, {"step": step, "pairs": lines}, indent=None)
        frequent = Counter(f"{source}→{target}" for source, target, _ in lines).most_common(3)
        return (
            f"The loss is NaN or infinite at step {step} ({len(lines):,} sentence pairs, most of them "
            f"{', '.join(name for name, _ in frequent)}; {path} lists them). "
            f"Lower training.learning_rate, or set training.max_grad_norm."
        )
