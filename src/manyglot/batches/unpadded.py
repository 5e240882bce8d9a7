"""A batch without padding: the concatenated tokens of all sentences, and the sentence lengths.

For the contrastive alignment loss, the encoder also reads some of the target sentences: the aligned targets.

Shape letters: B sentences, N decoder input tokens, S source tokens, K aligned targets, A tokens of aligned targets.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from manyglot.batches.array_files import AnyInts, IntArray
from manyglot.batches.batch import Batch
from manyglot.vocabulary.subword_model import EOS, PAD


class AlignedTargetSelection(NamedTuple):
    """Selects the target sentences that the encoder reads for the contrastive alignment loss."""

    every_nth_pair: int
    """Interval of the sentence pairs that take part: 2 selects every second pair."""
    num_leading_tags: int
    """Number of leading tags of a target sentence, which the encoder does not read."""
    source_language_tags: Sequence[int] = ()
    """The tag of each language, if the encoder reads the language of its input."""


class MaxLengths(NamedTuple):
    """The lengths of the longest sentences, tags and </s> included."""

    source: int
    encoded: int
    """The longest of all sentences that the encoder reads: sources and aligned targets."""
    input: int
    """The longest decoder input."""


class UnpaddedBatch(NamedTuple):
    """The concatenated tokens of a batch, and the lengths of its sentences."""

    source_ids_S: AnyInts
    source_length_B: IntArray
    input_ids_N: AnyInts
    input_length_B: IntArray
    label_N: AnyInts
    lang_B: IntArray
    aligned_ids_A: AnyInts = np.zeros(0, dtype=np.int64)
    aligned_length_K: IntArray = np.zeros(0, dtype=np.int64)
    aligned_source_K: IntArray = np.zeros(0, dtype=np.int64)

    @classmethod
    def from_batch_sorted_by_language(cls, batch: Batch) -> UnpaddedBatch:
        """Remove the padding and sort the sentences by target language."""
        lang_B = batch.lang_B.numpy()
        order_B = slice(None) if (np.diff(lang_B) >= 0).all() else np.argsort(lang_B, kind="stable")
        source_BS, input_BT, label_BT = (x.numpy()[order_B] for x in (batch.source_BS, batch.input_BT, batch.label_BT))
        is_source_BS, is_input_BT = source_BS != PAD, input_BT != PAD
        is_input_BT[:, 0] = True  # the start symbol may be PAD
        return cls(
            source_ids_S=source_BS[is_source_BS],
            source_length_B=is_source_BS.sum(axis=1),
            input_ids_N=input_BT[is_input_BT],
            input_length_B=is_input_BT.sum(axis=1),
            label_N=label_BT[is_input_BT],
            lang_B=lang_B[order_B],
        )

    def with_aligned_targets(self, aligned: AlignedTargetSelection) -> UnpaddedBatch:
        """Add the aligned targets in the form the encoder reads: [tag] subwords </s>."""
        end_B = np.cumsum(self.input_length_B)
        source_K = np.arange(0, len(end_B), aligned.every_nth_pair)
        length_K = self.input_length_B[source_K] - aligned.num_leading_tags
        shift_K = end_B[source_K] - np.cumsum(length_K)
        ids_A = self.label_N[np.repeat(shift_K, length_K) + np.arange(length_K.sum())]
        if aligned.source_language_tags:
            tag_K = np.asarray(aligned.source_language_tags)[self.lang_B[source_K]]
            ids_A, length_K = np.insert(ids_A, np.cumsum(length_K) - length_K, tag_K), length_K + 1
        return self._replace(aligned_ids_A=ids_A, aligned_length_K=length_K, aligned_source_K=source_K)

    def padded_to_multiple(self, multiple: int, max_dummy_length: int) -> UnpaddedBatch:
        """Append dummy sentences without labels, so that `multiple` divides the numbers of tokens and sentences."""
        missing_S, missing_N, missing_A = (
            -len(ids) % multiple for ids in (self.source_ids_S, self.input_ids_N, self.aligned_ids_A)
        )
        num_dummies = -(-max(missing_S, missing_N) // max_dummy_length)
        source_length_B = _append_dummies(self.source_length_B, missing_S, num_dummies)
        aligned_length_K = _append_dummies(self.aligned_length_K, missing_A, -(-missing_A // max_dummy_length))
        missing_B = _round_up(len(source_length_B), 4 * multiple) - len(self.lang_B)
        missing_K = _round_up(len(aligned_length_K), multiple) - len(self.aligned_source_K)
        return UnpaddedBatch(
            source_ids_S=_pad_end(self.source_ids_S, missing_S, EOS),
            source_length_B=source_length_B,
            input_ids_N=_pad_end(self.input_ids_N, missing_N, EOS),
            input_length_B=_append_dummies(self.input_length_B, missing_N, num_dummies),
            label_N=_pad_end(self.label_N, missing_N, PAD),
            lang_B=np.pad(self.lang_B, (0, missing_B), mode="edge"),
            aligned_ids_A=_pad_end(self.aligned_ids_A, missing_A, EOS),
            aligned_length_K=aligned_length_K,
            aligned_source_K=_pad_end(self.aligned_source_K, missing_K, -1),
        )

    @property
    def encoded_length_B(self) -> IntArray:
        """Lengths of all sentences that the encoder reads: sources, then aligned targets."""
        return np.concatenate([self.source_length_B, self.aligned_length_K])

    @property
    def max_lengths(self) -> MaxLengths:
        """The maximum lengths of the batch."""
        lengths = self.source_length_B, self.encoded_length_B, self.input_length_B
        return MaxLengths(*(int(length.max()) for length in lengths))


def _pad_end(values: AnyInts, num_missing: int, value: int) -> AnyInts:
    return np.pad(values, (0, num_missing), constant_values=value)


def _append_dummies(length_B: IntArray, num_tokens: int, num_dummies: int) -> IntArray:
    """Append dummy sentences of nearly equal length with `num_tokens` tokens in total."""
    if not num_dummies:
        return length_B
    return np.concatenate([length_B, np.diff(np.arange(num_dummies + 1) * num_tokens // num_dummies)])


def _round_up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple
