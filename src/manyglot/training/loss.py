"""The training loss: label-smoothed cross-entropy, and optionally the alignment of the encoder.

Shape letters: B sentences, N target tokens, D model width, L languages.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import zip_longest
from typing import NamedTuple

import torch
from torch import Tensor

from manyglot.model.cross_entropy import cross_entropy
from manyglot.model.packed import packed_forward
from manyglot.model.packing import PackedBatch
from manyglot.model.transformer import HiddenStates, Transformer
from manyglot.training.alignment import AlignmentSettings, alignment_loss
from manyglot.vocabulary.subwords import PAD


class Loss(NamedTuple):
    """Losses of a batch, summed over its target tokens."""

    total: Tensor
    """What is minimised: the smoothed loss plus the weighted alignment loss."""
    smoothed: Tensor
    """(1 - s) nll + s times the mean over all symbols."""
    nll_L: Tensor
    """The negative log-likelihood by target language, for the log."""
    alignment: Tensor | None
    """The mean alignment loss of the pairs times the number of tokens; None without alignment."""

    def to_vector(self) -> Tensor:
        """The parts as one float64 vector, to be summed over batches and processes; `LossParts` reads it."""
        alignment = [] if self.alignment is None else [self.alignment.detach()[None].to(self.nll_L.dtype)]
        return torch.cat([self.smoothed.detach()[None].to(self.nll_L.dtype), self.nll_L, *alignment]).double()


class LossParts(NamedTuple):
    """The parts of a loss vector."""

    smoothed: float
    nll: list[float]
    """By target language."""
    alignment: float | None

    @classmethod
    def from_vector(cls, vector: Tensor, num_languages: int) -> LossParts:
        """Read what `Loss.to_vector` wrote."""
        smoothed, *rest = vector.tolist()
        nll, alignment = rest[:num_languages], rest[num_languages:]
        return cls(smoothed, nll, alignment[0] if alignment else None)


@dataclass
class Sums:
    """Sums over target tokens: of an update, or of all updates since the last line of the log."""

    loss: float = 0.0
    nll: list[float] = field(default_factory=list)
    """By target language."""
    tokens: list[int] = field(default_factory=list)
    """By target language."""
    source_tokens: int = 0
    """Of all source sentences."""
    alignment: float | None = None
    """None where nothing is aligned."""

    def __add__(self, other: Sums) -> Sums:
        nll = [a + b for a, b in zip_longest(self.nll, other.nll, fillvalue=0.0)]
        tokens = [a + b for a, b in zip_longest(self.tokens, other.tokens, fillvalue=0)]
        aligned = [each.alignment for each in (self, other) if each.alignment is not None]
        source_tokens = self.source_tokens + other.source_tokens
        return Sums(self.loss + other.loss, nll, tokens, source_tokens, sum(aligned) if aligned else None)


def batch_loss(
    model: Transformer,
    batch: PackedBatch,
    hidden: HiddenStates,
    label_smoothing: float,
    alignment: AlignmentSettings | None = None,
) -> Loss:
    """The loss of a packed batch from the hidden states of its forward pass."""
    smoothed, nll_N = cross_entropy(
        hidden.decoder.flatten(0, 1), model.embedding.weight, batch.label_N, label_smoothing
    )
    nll_L = nll_N.new_zeros(model.num_languages).index_add_(0, batch.lang_B[batch.input.sentence_N], nll_N)
    if alignment is None:
        return Loss(smoothed, smoothed, nll_L, None)
    aligned = smoothed.new_zeros(())
    if len(batch.aligned_source_K):
        aligned = alignment_loss(hidden.encoder.flatten(0, 1), batch) * (batch.label_N != PAD).sum()
    return Loss(smoothed + alignment.weight * aligned, smoothed, nll_L, aligned)


def sentence_losses(model: Transformer, batch: PackedBatch) -> tuple[Tensor, Tensor]:
    """The negative log-likelihood of each sentence, summed over its tokens, and the number of these tokens."""
    hidden_ND = packed_forward(model, batch).decoder.flatten(0, 1)
    _, nll_N = cross_entropy(hidden_ND, model.embedding.weight, batch.label_N, 0.0)
    zeros_B = nll_N.new_zeros(batch.input.num_sentences)
    scored_N = (batch.label_N != PAD).to(nll_N.dtype)
    nll_B, tokens_B = (zeros_B.index_add(0, batch.input.sentence_N, each_N) for each_N in (nll_N, scored_N))
    return nll_B, tokens_B
