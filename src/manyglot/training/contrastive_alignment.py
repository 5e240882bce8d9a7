"""Alignment: the encoder is made to give a sentence and its translation like states, so that a decoder that has learnt
from one language reads another as well, in directions without training too.

Some target sentences of each batch are read by the encoder as if they were sources. Of each sentence pair, both sides
are found again among those of all pairs by the cosine of the means of their states (a contrastive loss).

Shape letters: M encoded tokens, S encoded sentences, K pairs, D model width.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from manyglot.batches.unpadded import AlignedTargets
from manyglot.config.settings import Settings
from manyglot.errors import SettingsError
from manyglot.model.packing import PackedBatch
from manyglot.model.transformer import Transformer

TEMPERATURE = 0.1
"""Divides the cosines; a lower temperature stresses the pairs that are hard to tell apart."""
MIN_ALIGNED_PAIRS = 2
"""Pairs of a batch, on average. One alone is found whatever the encoder does."""


class ContrastiveAlignmentSettings(Settings):
    """That the encoder gives a sentence and its translation like states; it must not know the target language."""

    weight: float = Field(0.05, gt=0)
    """How much it counts: so many times the loss of a target token. Too much is at the cost of directions with
    training."""
    every_nth_pair: int = Field(4, ge=1)
    """One of so many sentence pairs is aligned. The encoder reads its target sentence too, which takes time."""


def make_aligned_targets(model: Transformer, alignment: ContrastiveAlignmentSettings) -> AlignedTargets:
    """Which target sentences the encoder reads; refused where guidance tells it the target language."""
    for name, method in model.guidance.items():
        if method.affects_encoder:
            raise SettingsError(
                f"training.alignment: the encoder must not know the target language, and {name} tells it. "
                f"Guide the decoder alone, as with guidance=[{{method: adapter}}]."
            )
    return AlignedTargets(alignment.every_nth_pair, len(model.tags_by_language()[0].target))


def describe_aligned_pairs(alignment: ContrastiveAlignmentSettings, pairs_per_batch: float) -> str:
    """How many of so many sentence pairs of a batch are aligned; too few are refused."""
    num_aligned = pairs_per_batch / alignment.every_nth_pair
    if num_aligned < MIN_ALIGNED_PAIRS:
        raise SettingsError(
            f"training.alignment.every_nth_pair: one of {alignment.every_nth_pair} sentence pairs is aligned, "
            f"and a batch has about {pairs_per_batch:.0f}, but a pair must be told from others. Lower it, or raise "
            f"batches.max_tokens."
        )
    return (
        f"The encoder is aligned by about {num_aligned:,.0f} of the {pairs_per_batch:,.0f} sentence pairs of a batch, "
        f"with weight {alignment.weight:g}."
    )


def contrastive_alignment_loss(encoded_MD: Tensor, batch: PackedBatch, temperature: float = TEMPERATURE) -> Tensor:
    """The contrastive loss: find each source's target among all aligned targets, and the reverse; mean over pairs."""
    with torch.autocast(encoded_MD.device.type, enabled=False):
        mean_SD = F.normalize(_mean_states(encoded_MD, batch), dim=1)
        is_pair_K = batch.aligned_source_K >= 0
        source_KD = mean_SD.index_select(0, batch.aligned_source_K.clamp(min=0))
        target_KD = mean_SD[batch.shape.num_sentences :]
        cosine_KK = source_KD @ target_KD.T / temperature
        label_K = torch.arange(len(is_pair_K), device=is_pair_K.device).where(is_pair_K, -100)
        both_directions = [scores_KK.masked_fill(~is_pair_K, -torch.inf) for scores_KK in (cosine_KK, cosine_KK.T)]
        losses = [
            F.cross_entropy(scores_KK, label_K, ignore_index=-100, reduction="sum") for scores_KK in both_directions
        ]
        return (losses[0] + losses[1]) / (is_pair_K.sum() * 2)


def _mean_states(encoded_MD: Tensor, batch: PackedBatch) -> Tensor:
    """The mean of the states of each sentence, zero where there is none."""
    sentence_M, dtype = batch.encoded.sentence_N, torch.promote_types(encoded_MD.dtype, torch.float32)
    total_SD = encoded_MD.new_zeros(batch.encoded.num_sentences, encoded_MD.shape[1], dtype=dtype)
    total_SD = total_SD.index_add(0, sentence_M, encoded_MD.to(dtype))
    length_S = total_SD.new_zeros(len(total_SD)).index_add(0, sentence_M, total_SD.new_ones(len(sentence_M)))
    return total_SD / length_S.clamp(min=1)[:, None]
