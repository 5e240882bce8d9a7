"""The label-smoothed cross-entropy.

Shape letters: N scored target tokens, D model width, V vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor

from manyglot.batches.batch import Batch
from manyglot.model.transformer import Transformer
from manyglot.vocabulary.subwords import PAD


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


def batch_loss(model: Transformer, batch: Batch, label_smoothing: float) -> Loss:
    """The loss of a batch, summed over its tokens; logits are computed for the scored positions only."""
    scored_BT = batch.label_BT != PAD
    hidden_ND = model.hidden(batch.source_BS, batch.input_BT, batch.lang_B)[scored_BT]
    logprob_NV = model.log_probabilities(hidden_ND)
    nll = -logprob_NV.gather(1, batch.label_BT[scored_BT][:, None]).sum()
    uniform = -logprob_NV.mean(dim=-1).sum()
    return Loss((1 - label_smoothing) * nll + label_smoothing * uniform, nll.detach())
