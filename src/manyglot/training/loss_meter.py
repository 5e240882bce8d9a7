"""The losses of updates, added up for the log; one that is not a number ends the run."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from manyglot.batches.loader import Planned
from manyglot.errors import ManyglotError
from manyglot.training.loss import LossParts, Sums


class LossMeter:
    """Sums the losses of updates. Losses of a GPU are read one update later, so that the GPU never waits."""

    def __init__(self, run: Path, sums: Sums | None = None) -> None:
        self.run, self.sums = run, sums or Sums()
        self._waiting: list[tuple[int, Sequence[Planned], Tensor, torch.cuda.Event | None]] = []

    def add(self, step: int, batches: Sequence[Planned], losses: Tensor) -> None:
        """Add the loss vector of an update."""
        ready = None
        if losses.is_cuda:  # to ask for the value now, or for an older one later, would wait for all that is queued
            fetched = torch.empty_like(losses, device="cpu", pin_memory=True)
            losses, ready = fetched.copy_(losses, non_blocking=True), torch.cuda.Event()  # type: ignore[no-untyped-call]
            ready.record()
        self._waiting.append((step, batches, losses, ready))
        self._look(later=0 if ready is None else 1)

    def settle(self) -> Sums:
        """The sums of all updates."""
        self._look(later=0)
        return self.sums

    def _look(self, later: int) -> None:
        while len(self._waiting) > later:
            step, batches, vector, ready = self._waiting.pop(0)
            if ready is not None:
                ready.synchronize()
            tokens_L = np.sum([batch.tokens_by_language() for batch in batches], axis=0)
            loss = LossParts.from_vector(vector, num_languages=len(tokens_L))
            if not (math.isfinite(loss.smoothed) and math.isfinite(loss.alignment or 0.0)):
                raise ManyglotError(self._complaint(step, batches))
            source_tokens = sum(batch.num_source_tokens() for batch in batches)
            self.sums += Sums(loss.smoothed, loss.nll, tokens_L.tolist(), source_tokens, loss.alignment)

    def _complaint(self, step: int, batches: Sequence[Planned]) -> str:
        """Say what was in the update, and write all of it to a file."""
        lines = [line for batch in batches for line in batch.lines()]
        path = self.run / f"not-a-number-{step}.json"
        path.write_text(json.dumps({"step": step, "pairs": lines}) + "\n", encoding="utf-8")
        most = Counter(f"{source}→{target}" for source, target, _ in lines).most_common(3)
        return (
            f"The loss is not a number at step {step} ({len(lines):,} sentence pairs, most of them "
            f"{', '.join(name for name, _ in most)}; their lines are in {path}). "
            f"Lower training.learning_rate, or set training.clip_norm."
        )
