"""Contrastive alignment of the encoder, for zero-shot directions.

The encoder also reads some target sentences of each batch, as if they were sources. A contrastive loss on the cosine
similarity of mean-pooled encoder states must identify the target of each source among all targets, and vice versa. A
sentence and its translation thus get similar states, and a decoder trained on one source language can read another.

Shape letters: M encoded tokens, S encoded sentences, K pairs, D model width.
"""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from manyglot.batches.unpadded import AlignedTargetSelection
from manyglot.config.base_settings import MAX_COUNT, Settings
from manyglot.errors import SettingsError
from manyglot.model.packing import PackedBatch
from manyglot.model.transformer import Transformer

TEMPERATURE = 0.1
"""Divides the cosine similarities. A lower temperature emphasizes pairs that are hard to distinguish."""
MIN_ALIGNED_PAIRS = 2
"""Minimum average number of aligned pairs per batch. The loss of a single pair is always zero."""


FEW_ALIGNED_PAIRS = 100
"""With fewer aligned pairs per batch, a larger weight may be better."""
MIN_ALIGNED_PAIRS_FOR_AUTO = 8
"""Minimum average number of aligned pairs per batch for `training.alignment: auto`."""


class ContrastiveAlignmentSettings(Settings):
    """Contrastive alignment of the encoder, which must not know the target language."""

    weight: float = Field(0.05, gt=0, le=100)
    """Weight of the alignment loss relative to the loss per target token. A large weight costs quality in supervised
    directions."""
    every_nth_pair: int = Field(4, ge=1, le=MAX_COUNT)
    """Align one in this many sentence pairs. The encoder reads their target sentences too, which takes time."""


def resolve_alignment(
    setting: ContrastiveAlignmentSettings | Literal["auto"] | None,
    model: Transformer,
    pairs_per_batch: float,
    *,
    has_zero_shot_directions: bool,
    trains_encoder: bool = True,
) -> ContrastiveAlignmentSettings | None:
    """Decide whether to align the encoder, if `training.alignment` is auto.

    Alignment is for zero-shot directions and trains the encoder, which must not know the target language. Among very
    few pairs, every sentence is easily matched.
    """
    if setting != "auto":
        return setting
    alignment = ContrastiveAlignmentSettings()
    enough_pairs = pairs_per_batch / alignment.every_nth_pair >= MIN_ALIGNED_PAIRS_FOR_AUTO
    is_useful = has_zero_shot_directions and trains_encoder and enough_pairs
    return alignment if is_useful and not model.guidance.affects_encoder else None


def explain_disabled_alignment(model: Transformer, pairs_per_batch: float) -> str:
    """Say why `training.alignment: auto` does not align the encoder, although there are zero-shot directions."""
    informing = [name for name, method in model.guidance.named_methods() if method.affects_encoder]
    if informing:
        reason = f"{informing[0]} tells the encoder the target language. Use guidance of the decoder only, if you can"
    else:
        needed = MIN_ALIGNED_PAIRS_FOR_AUTO * ContrastiveAlignmentSettings().every_nth_pair
        reason = (
            f"a batch has {pairs_per_batch:.0f} sentence pairs on average, and alignment needs {needed}. "
            f"Raise batches.max_tokens, if you can"
        )
    return f"training.alignment: auto is off, which may harm zero-shot directions: {reason}."


def make_aligned_target_selection(
    model: Transformer, alignment: ContrastiveAlignmentSettings
) -> AlignedTargetSelection:
    """Select the target sentences that the encoder reads; raise an error if guidance informs the encoder."""
    for name, method in model.guidance.named_methods():
        if method.affects_encoder:
            raise SettingsError(
                f"training.alignment: the encoder must not know the target language, but {name} informs it. "
                f"Use guidance of the decoder only, such as guidance=[{{method: adapter}}]."
            )
    tags = model.tags_by_language()[0]
    return AlignedTargetSelection(alignment.every_nth_pair, len(tags.target), tags.source_language_tags)


def check_and_describe_aligned_pairs(alignment: ContrastiveAlignmentSettings, pairs_per_batch: float) -> str:
    """Report how many sentence pairs of an average batch are aligned; raise an error if they are too few."""
    num_aligned = pairs_per_batch / alignment.every_nth_pair
    if num_aligned < MIN_ALIGNED_PAIRS:
        raise SettingsError(
            f"training.alignment.every_nth_pair: {alignment.every_nth_pair} selects fewer than {MIN_ALIGNED_PAIRS} "
            f"of the {pairs_per_batch:.0f} sentence pairs of an average batch. Lower it, or raise batches.max_tokens."
        )
    is_low = num_aligned < FEW_ALIGNED_PAIRS and alignment.weight == ContrastiveAlignmentSettings().weight
    advice = " With so few, training.alignment.weight=0.3 may be better for zero-shot directions." if is_low else ""
    return (
        f"Contrastive alignment uses about {num_aligned:,.0f} of the {pairs_per_batch:,.0f} sentence pairs of a batch, "
        f"with weight {alignment.weight:g}.{advice}"
    )


def mean_contrastive_alignment_loss(encoded_MD: Tensor, batch: PackedBatch, temperature: float = TEMPERATURE) -> Tensor:
    """Return the contrastive loss: cross-entropy of the true pair among all pairs; mean over pairs and both sides."""
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
    """Return the mean encoder state of each sentence; zero for empty sentences."""
    sentence_M, dtype = batch.encoded.sentence_N, torch.promote_types(encoded_MD.dtype, torch.float32)
    total_SD = encoded_MD.new_zeros(batch.encoded.num_sentences, encoded_MD.shape[1], dtype=dtype)
    total_SD = total_SD.index_add(0, sentence_M, encoded_MD.to(dtype))
    length_S = total_SD.new_zeros(len(total_SD)).index_add(0, sentence_M, total_SD.new_ones(len(sentence_M)))
    return total_SD / length_S.clamp(min=1)[:, None]
