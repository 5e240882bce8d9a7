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
FEWEST = 2
"""Pairs of a batch, on average. One alone is found whatever the encoder does."""


class AlignmentSettings(Settings):
    """That the encoder gives a sentence and its translation like states; it must not know the target language."""

    weight: float = Field(0.05, gt=0)
    """How much it counts: so many times the loss of a target token. Too much is at the cost of directions with
    training."""
    every: int = Field(4, ge=1)
    """One of so many sentence pairs is aligned. The encoder reads its target sentence too, which takes time."""


def aligned_targets(model: Transformer, alignment: AlignmentSettings) -> AlignedTargets:
    """Which target sentences the encoder reads; refused where guidance tells it the target language."""
    for name, method in model.guidance.items():
        if method.in_encoder:
            raise SettingsError(
                f"training.alignment: the encoder must not know the target language, and {name} tells it. "
                f"Guide the decoder alone, as with guidance=[{{method: adapter}}]."
            )
    return AlignedTargets(alignment.every, len(model.tags()[0].target))


def pairs_in_words(alignment: AlignmentSettings, pairs: float) -> str:
    """How many of so many sentence pairs of a batch are aligned; too few are refused."""
    aligned = pairs / alignment.every
    if aligned < FEWEST:
        raise SettingsError(
            f"training.alignment.every: one of {alignment.every} sentence pairs is aligned, and a batch has about "
            f"{pairs:.0f}, but a pair must be told from others. Lower it, or raise batches.max_tokens."
        )
    return (
        f"The encoder is aligned by about {aligned:,.0f} of the {pairs:,.0f} sentence pairs of a batch, "
        f"with weight {alignment.weight:g}."
    )


def alignment_loss(encoded_MD: Tensor, batch: PackedBatch, temperature: float = TEMPERATURE) -> Tensor:
    """The contrastive loss: find each source's target among all aligned targets, and the reverse; mean over pairs."""
    with torch.autocast(encoded_MD.device.type, enabled=False):
        mean_SD = F.normalize(_means(encoded_MD, batch), dim=1)
        there_K = batch.aligned_source_K >= 0
        source_KD = mean_SD.index_select(0, batch.aligned_source_K.clamp(min=0))
        target_KD = mean_SD[batch.shape.num_sentences :]
        cosine_KK = source_KD @ target_KD.T / temperature
        own_K = torch.arange(len(there_K), device=there_K.device).where(there_K, -100)
        both = [scores_KK.masked_fill(~there_K, -torch.inf) for scores_KK in (cosine_KK, cosine_KK.T)]
        losses = [F.cross_entropy(scores_KK, own_K, ignore_index=-100, reduction="sum") for scores_KK in both]
        return (losses[0] + losses[1]) / (there_K.sum() * 2)


def _means(encoded_MD: Tensor, batch: PackedBatch) -> Tensor:
    """The mean of the states of each sentence, zero where there is none."""
    sentence_M, exact = batch.encoded.sentence_N, torch.promote_types(encoded_MD.dtype, torch.float32)
    total_SD = encoded_MD.new_zeros(batch.encoded.num_sentences, encoded_MD.shape[1], dtype=exact)
    total_SD = total_SD.index_add(0, sentence_M, encoded_MD.to(exact))
    length_S = total_SD.new_zeros(len(total_SD)).index_add(0, sentence_M, total_SD.new_ones(len(sentence_M)))
    return total_SD / length_S.clamp(min=1)[:, None]
