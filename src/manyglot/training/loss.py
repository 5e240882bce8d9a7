"""The label-smoothed cross-entropy.

Shape letters: N target tokens, D model width.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor

from manyglot.batches.packing import Packed
from manyglot.model.operations import cross_entropy
from manyglot.model.transformer import Transformer


class Loss(NamedTuple):
    """Sums over the target tokens of a batch."""

    smoothed: Tensor
    """What is minimised: (1 - s) nll + s times the mean over all symbols."""
    nll: Tensor
    """The negative log-likelihood, for people."""


@dataclass
class Sums:
    """Sums over target tokens: of an update, or of all updates since the last line of the log."""

    loss: float = 0.0
    nll: float = 0.0
    tokens: int = 0

    def __add__(self, other: Sums) -> Sums:
        return Sums(self.loss + other.loss, self.nll + other.nll, self.tokens + other.tokens)


def batch_loss(model: Transformer, batch: Packed, label_smoothing: float) -> Loss:
    """The loss of a batch, summed over its tokens."""
    hidden_ND = model.packed_hidden(batch)
    smoothed, nll_N = cross_entropy(hidden_ND, model.embedding.weight, batch.label_N, label_smoothing)
    return Loss(smoothed, nll_N.sum())
