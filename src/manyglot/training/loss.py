"""The training loss: label-smoothed cross-entropy and, optionally, contrastive alignment of the encoder.

Shape letters: B sentences, N target tokens, D model width, L languages.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import zip_longest
from typing import NamedTuple

import torch
from torch import Tensor

from manyglot.model.cross_entropy import linear_cross_entropy_sum
from manyglot.model.packed_executor import packed_forward
from manyglot.model.packing import PackedBatch
from manyglot.model.transformer import HiddenStates, Transformer
from manyglot.training.contrastive_alignment import ContrastiveAlignmentSettings, mean_contrastive_alignment_loss
from manyglot.vocabulary.subword_model import PAD


class BatchLoss(NamedTuple):
    """Losses of a batch, summed over its target tokens."""

    objective: Tensor
    """The value to minimize: the label-smoothed loss plus the weighted alignment loss."""
    label_smoothed: Tensor
    """Cross-entropy with smoothing s: (1 - s) nll + s times the mean over the vocabulary."""
    nll_L: Tensor
    """Negative log-likelihood by target language, for the log."""
    contrastive_alignment: Tensor | None
    """Mean alignment loss of the pairs, times the number of target tokens; None without alignment."""

    def to_vector(self) -> Tensor:
        """Return the parts as one float64 vector that can be summed over batches and processes; see `LossParts`."""
        alignment = (
            []
            if self.contrastive_alignment is None
            else [self.contrastive_alignment.detach()[None].to(self.nll_L.dtype)]
        )
        return torch.cat([self.label_smoothed.detach()[None].to(self.nll_L.dtype), self.nll_L, *alignment]).double()


class LossParts(NamedTuple):
    """The parts of a loss vector, summed over target tokens."""

    label_smoothed: float
    nll_by_language: list[float]
    """By target language."""
    contrastive_alignment: float | None

    @classmethod
    def from_vector(cls, vector: Tensor, num_languages: int) -> LossParts:
        """Split the vector that `BatchLoss.to_vector` makes."""
        smoothed, *rest = vector.tolist()
        nll, alignment = rest[:num_languages], rest[num_languages:]
        return cls(smoothed, nll, alignment[0] if alignment else None)


@dataclass
class LossTotals:
    """Losses summed over target tokens, and token counts, of one update or of all updates since the last log line."""

    label_smoothed: float = 0.0
    nll_by_language: list[float] = field(default_factory=list)
    """By target language."""
    target_tokens_by_language: list[int] = field(default_factory=list)
    """By target language."""
    num_source_tokens: int = 0
    """In all source sentences."""
    contrastive_alignment: float | None = None
    """None without alignment."""

    def __add__(self, other: LossTotals) -> LossTotals:
        nll = [a + b for a, b in zip_longest(self.nll_by_language, other.nll_by_language, fillvalue=0.0)]
        tokens = [
            a + b for a, b in zip_longest(self.target_tokens_by_language, other.target_tokens_by_language, fillvalue=0)
        ]
        alignment = [t.contrastive_alignment for t in (self, other) if t.contrastive_alignment is not None]
        num_source_tokens = self.num_source_tokens + other.num_source_tokens
        return LossTotals(
            self.label_smoothed + other.label_smoothed,
            nll,
            tokens,
            num_source_tokens,
            sum(alignment) if alignment else None,
        )


def summed_batch_loss(
    model: Transformer,
    batch: PackedBatch,
    hidden: HiddenStates,
    label_smoothing: float,
    alignment: ContrastiveAlignmentSettings | None = None,
) -> BatchLoss:
    """Compute the loss of a packed batch, summed over target tokens, from the hidden states of its forward pass."""
    label_smoothed, nll_N = linear_cross_entropy_sum(
        hidden.decoded.flatten(0, 1), model.output_layer, batch.label_N, label_smoothing
    )
    nll_L = nll_N.new_zeros(model.num_languages).index_add_(0, batch.lang_B[batch.input.sentence_N], nll_N)
    if alignment is None:
        return BatchLoss(label_smoothed, label_smoothed, nll_L, None)
    contrastive = label_smoothed.new_zeros(())
    if len(batch.aligned_source_K):
        contrastive = (
            mean_contrastive_alignment_loss(hidden.encoded.flatten(0, 1), batch) * (batch.label_N != PAD).sum()
        )
    return BatchLoss(label_smoothed + alignment.weight * contrastive, label_smoothed, nll_L, contrastive)


def sentence_nll_and_token_counts(model: Transformer, batch: PackedBatch) -> tuple[Tensor, Tensor]:
    """Return the negative log-likelihood of each target sentence, summed over its tokens, and its token count."""
    hidden_ND = packed_forward(model, batch).decoded.flatten(0, 1)
    _, nll_N = linear_cross_entropy_sum(hidden_ND, model.output_layer, batch.label_N, 0.0)
    zeros_B = nll_N.new_zeros(batch.input.num_sentences)
    scored_N = (batch.label_N != PAD).to(nll_N.dtype)
    nll_B, tokens_B = (zeros_B.index_add(0, batch.input.sentence_N, values_N) for values_N in (nll_N, scored_N))
    return nll_B, tokens_B
