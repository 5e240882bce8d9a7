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

from manyglot.batches.packing import Answers, Packed
from manyglot.config.settings import Settings
from manyglot.errors import SettingsError
from manyglot.model.transformer import Transformer

FEWEST = 2
"""Pairs of a batch, on average. One alone is found whatever the encoder does."""


class AlignmentSettings(Settings):
    """That the encoder gives a sentence and its translation like states; it must not know the target language."""

    weight: float = Field(0.05, gt=0)
    """How much it counts: so many times the loss of a target token. Too much is at the cost of directions with
    training."""
    every: int = Field(4, ge=1)
    """One of so many sentence pairs is aligned. The encoder reads its target sentence too, which takes time."""
    temperature: float = Field(0.1, gt=0)
    """Cosines are divided by it: a lower one looks more at the pairs that are hard to tell apart."""


def answers_of(model: Transformer, alignment: AlignmentSettings) -> Answers:
    """Which target sentences the encoder reads, if it may."""
    for name, method in model.guidance.items():
        if method.in_encoder:
            raise SettingsError(
                f"training.alignment: the encoder must not know the target language, and {name} tells it. "
                f"Guide the decoder alone, as with guidance=[{{method: adapter}}]."
            )
    return Answers(alignment.every, len(model.tags()[0].target))


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


def alignment_loss(encoded_MD: Tensor, batch: Packed, temperature: float) -> Tensor:
    """The mean over the pairs of finding the answer of a sentence among all answers, and the other way about."""
    with torch.autocast(encoded_MD.device.type, enabled=False):
        mean_SD = F.normalize(_means(encoded_MD, batch), dim=1)
        there_K = batch.pair_K >= 0
        source_KD, answer_KD = mean_SD.index_select(0, batch.pair_K.clamp(min=0)), mean_SD[batch.sizes.num_sentences :]
        cosine_KK = source_KD @ answer_KD.T / temperature
        own_K = torch.arange(len(there_K), device=there_K.device).where(there_K, -100)
        both = [scores_KK.masked_fill(~there_K, -torch.inf) for scores_KK in (cosine_KK, cosine_KK.T)]
        losses = [F.cross_entropy(scores_KK, own_K, ignore_index=-100, reduction="sum") for scores_KK in both]
        return (losses[0] + losses[1]) / (2 * there_K.sum()).clamp(min=1)


def _means(encoded_MD: Tensor, batch: Packed) -> Tensor:
    """The mean of the states of each sentence, zero where there is none."""
    sentence_M, exact = batch.encoded.sentence_N, torch.promote_types(encoded_MD.dtype, torch.float32)
    total_SD = encoded_MD.new_zeros(batch.encoded.number, encoded_MD.shape[1], dtype=exact)
    total_SD = total_SD.index_add(0, sentence_M, encoded_MD.to(exact))
    length_S = total_SD.new_zeros(len(total_SD)).index_add(0, sentence_M, total_SD.new_ones(len(sentence_M)))
    return total_SD / length_S.clamp(min=1)[:, None]
