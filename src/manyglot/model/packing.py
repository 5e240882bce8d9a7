"""Packing: concatenates whole sentences without padding and computes the tile groups that attention kernels need.

All numbers of a packed batch are in one buffer, so that one copy moves it to a device. A CUDA graph replays only one
shape; `pack_batch` can therefore pad a batch to a multiple with dummy sentences that have no labels.

For the alignment loss the encoder also reads some target sentences. They follow the sources as sentences of their own.

Shape letters: B sentences, N input tokens of the decoder, S source tokens, K aligned targets, A their tokens, M = S + A
tokens that the encoder reads, G groups.
"""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor

from manyglot.batches.array_files import AnyInts, IntArray
from manyglot.batches.batch import Batch
from manyglot.batches.unpadded import AlignedTargetSelection, MaxLengths, UnpaddedBatch
from manyglot.model.kernels.attention_tiles import (
    LONG_TILE,
    SHORT_TILE,
    GroupTableColumns,
    TileGroups,
    empty_groups,
    fits_tile,
    group_into_tiles,
    pad_groups_to_multiple,
)
from manyglot.vocabulary.subword_model import PAD

Segment = TypeVar("Segment")


class Segments(NamedTuple, Generic[Segment]):
    """The segments of a packed batch's buffer, in the order in which they are stored.

    This is the only description of the layout. Its fields are arrays in `pack_batch`, lengths in a `PackedShape` and
    views of the buffer in a `PackedBatch`.
    """

    encoded_ids_M: Segment
    encoded_sentence_M: Segment
    encoded_position_M: Segment
    input_ids_N: Segment
    input_sentence_N: Segment
    input_position_N: Segment
    label_N: Segment
    lang_B: Segment
    encoder_short_G4: Segment
    encoder_long_G4: Segment
    decoder_short_G4: Segment
    decoder_long_G4: Segment
    cross_short_G4: Segment
    cross_long_G4: Segment
    aligned_source_K: Segment


class PackedSentences(NamedTuple):
    """Whole sentences, concatenated."""

    ids_N: Tensor
    sentence_N: Tensor
    """The index of each token's sentence."""
    position_N: Tensor
    """The position of each token in its sentence."""
    num_sentences: int
    max_length: int


class PackedShape(NamedTuple):
    """All static sizes of a packed batch. Batches of the same shape can share a CUDA graph."""

    lengths: Segments[int]
    num_sentences: int
    num_source_tokens: int
    """The number of source tokens, without aligned targets."""
    max_source_length: int
    max_encoded_length: int
    max_input_length: int
    fits_tile: bool
    """Whether every sentence fits into a tile of the attention kernels."""

    def fits_activation_memory_of(self, other: PackedShape, factor: float) -> bool:
        """Whether all sizes that determine activation memory are at most `factor` times those of the other shape."""
        own, reference = self.lengths, other.lengths
        return (
            own.encoded_ids_M <= factor * reference.encoded_ids_M
            and own.input_ids_N <= factor * reference.input_ids_N
            and own.aligned_source_K <= factor * reference.aligned_source_K
        )


class PackedBatch:
    """A batch without padding, its sentences sorted by target language."""

    def __init__(self, buffer: Tensor, shape: PackedShape) -> None:
        self.buffer, self.shape = buffer, shape
        segments = Segments(*torch.split(buffer, list(shape.lengths)))
        self.label_N = segments.label_N
        """The token that follows each input token; PAD where there is none to predict."""
        self.lang_B = segments.lang_B
        """The target language of each sentence."""
        self.aligned_source_K = segments.aligned_source_K
        """The sentence to which each aligned target belongs; -1 for dummy sentences."""
        self.encoded = PackedSentences(
            segments.encoded_ids_M,
            segments.encoded_sentence_M,
            segments.encoded_position_M,
            shape.num_sentences + len(self.aligned_source_K),
            shape.max_encoded_length,
        )
        """The input of the encoder: the sources, then the aligned targets."""
        self.source = PackedSentences(
            segments.encoded_ids_M[: shape.num_source_tokens],
            segments.encoded_sentence_M[: shape.num_source_tokens],
            segments.encoded_position_M[: shape.num_source_tokens],
            shape.num_sentences,
            shape.max_source_length,
        )
        self.input = PackedSentences(
            segments.input_ids_N,
            segments.input_sentence_N,
            segments.input_position_N,
            shape.num_sentences,
            shape.max_input_length,
        )
        """The input of the decoder."""
        self.encoder_groups = _as_tables(segments.encoder_short_G4, segments.encoder_long_G4)
        self.decoder_groups = _as_tables(segments.decoder_short_G4, segments.decoder_long_G4)
        self.cross_groups = _as_tables(segments.cross_short_G4, segments.cross_long_G4)
        """Queries from the input, keys from the source."""

    def to(self, device: torch.device) -> PackedBatch:
        """Copy the batch to a device."""
        return PackedBatch(self.pinned_buffer(device).to(device, non_blocking=True), self.shape)

    def pinned_buffer(self, device: torch.device) -> Tensor:
        """Return the buffer, pinned if the device is a GPU: a copy from pageable memory would wait for the GPU."""
        return self.buffer.pin_memory() if device.type == "cuda" and not self.buffer.is_cuda else self.buffer


class _AttentionGroups(NamedTuple):
    encoder: TileGroups[IntArray]
    decoder: TileGroups[IntArray]
    cross: TileGroups[IntArray]


def pack_batch(
    batch: Batch, pad_to_multiple: int = 1, aligned_targets: AlignedTargetSelection | None = None
) -> PackedBatch:
    """Remove the padding of a batch, and append the aligned targets to its sources.

    `pad_to_multiple` above 1 adds dummy sentences and empty groups, so that few different shapes occur. A batch with a
    sentence that does not fit into a tile is neither grouped nor padded.
    """
    tokens = UnpaddedBatch.from_batch_sorted_by_language(batch)
    if aligned_targets is not None:
        tokens = tokens.with_aligned_targets(aligned_targets)
    max_lengths = tokens.max_lengths
    all_fit = fits_tile(max(max_lengths))
    is_padded = pad_to_multiple > 1 and all_fit
    if is_padded:
        tokens, max_lengths = (
            tokens.padded_to_multiple(pad_to_multiple, SHORT_TILE),
            MaxLengths(LONG_TILE, LONG_TILE, LONG_TILE),
        )
    groups = _group_attentions(tokens) if all_fit else _AttentionGroups(empty_groups(), empty_groups(), empty_groups())
    if is_padded:
        groups = _AttentionGroups(*map(pad_groups_to_multiple, groups))
    segments = _make_segments(tokens, groups)
    lengths = Segments(*map(len, segments))
    shape = PackedShape(lengths, len(tokens.lang_B), len(tokens.source_ids_S), *max_lengths, all_fit)
    return PackedBatch(torch.from_numpy(np.concatenate(segments).astype(np.int32)), shape)


def split_by_tile_fit(batch: Batch) -> list[Batch]:
    """Split off the sentences that are too long for a tile; returns one or two batches, the fitting one first."""
    if fits_tile(max(batch.source_BS.shape[1], batch.input_BT.shape[1])):
        return [batch]
    length_B = torch.maximum((batch.source_BS != PAD).sum(dim=1), 1 + (batch.input_BT[:, 1:] != PAD).sum(dim=1))
    is_long_B = length_B > LONG_TILE
    return [batch.select_sentences(rows_B) for rows_B in (~is_long_B, is_long_B) if bool(rows_B.any())]


def _as_tables(short: Tensor, long: Tensor) -> TileGroups[Tensor]:
    num_columns = len(GroupTableColumns._fields)
    return TileGroups(short.view(-1, num_columns), long.view(-1, num_columns))


def _group_attentions(tokens: UnpaddedBatch) -> _AttentionGroups:
    encoded_B, source_B, input_B = tokens.encoded_length_B, tokens.source_length_B, tokens.input_length_B
    return _AttentionGroups(
        encoder=group_into_tiles(encoded_B, encoded_B),
        decoder=group_into_tiles(input_B, input_B),
        cross=group_into_tiles(input_B, source_B),
    )


def _make_segments(tokens: UnpaddedBatch, groups: _AttentionGroups) -> Segments[AnyInts]:
    """Compute the segments. Aligned targets are numbered after all sentences, including dummies."""
    source_sentence_S, source_position_S = _sentence_and_position(tokens.source_length_B)
    aligned_sentence_A, aligned_position_A = _sentence_and_position(tokens.aligned_length_K)
    input_sentence_N, input_position_N = _sentence_and_position(tokens.input_length_B)
    return Segments(
        encoded_ids_M=np.concatenate([tokens.source_ids_S, tokens.aligned_ids_A]),
        encoded_sentence_M=np.concatenate([source_sentence_S, aligned_sentence_A + len(tokens.lang_B)]),
        encoded_position_M=np.concatenate([source_position_S, aligned_position_A]),
        input_ids_N=tokens.input_ids_N,
        input_sentence_N=input_sentence_N,
        input_position_N=input_position_N,
        label_N=tokens.label_N,
        lang_B=tokens.lang_B,
        encoder_short_G4=groups.encoder.short_G4.ravel(),
        encoder_long_G4=groups.encoder.long_G4.ravel(),
        decoder_short_G4=groups.decoder.short_G4.ravel(),
        decoder_long_G4=groups.decoder.long_G4.ravel(),
        cross_short_G4=groups.cross.short_G4.ravel(),
        cross_long_G4=groups.cross.long_G4.ravel(),
        aligned_source_K=tokens.aligned_source_K,
    )


def _sentence_and_position(length_B: IntArray) -> tuple[IntArray, IntArray]:
    """Return the sentence of each token and its position there."""
    sentence_N = np.repeat(np.arange(len(length_B)), length_B)
    return sentence_N, np.arange(len(sentence_N)) - (np.cumsum(length_B) - length_B)[sentence_N]
