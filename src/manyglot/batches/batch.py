"""A batch: sentence pairs as padded tensors, with the target language of each sentence.

Shape letters: B sentences, S source tokens, T target tokens, L languages, K tags of a sentence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from itertools import chain
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from manyglot.batches.array_files import AnyInts, IntArray
from manyglot.batches.token_store import TokenStore
from manyglot.vocabulary.subword_model import EOS, PAD
from manyglot.vocabulary.vocabulary import LanguageTags


@dataclass(frozen=True)
class Batch:
    """Sentence pairs of one or more directions, padded."""

    source_BS: Tensor
    """Source sentences: [tags] subwords </s>, padded."""
    input_BT: Tensor
    """Decoder input: start symbol [tags] subwords, padded. The start symbol is </s>, or PAD in models of Marian."""
    label_BT: Tensor
    """Labels of the decoder: [tags] subwords </s>. Padding, and tags that the model does not predict, are PAD."""
    lang_B: Tensor
    """Target language id of each sentence."""

    def select_sentences(self, rows_B: Tensor) -> Batch:
        """Return a batch of the sentences that a boolean mask or an index tensor selects."""
        return Batch(*(getattr(self, field.name)[rows_B] for field in fields(self)))

    def __len__(self) -> int:
        return len(self.lang_B)

    @property
    def num_target_tokens(self) -> int:
        """Number of target tokens that the model predicts; padding and tags that it does not predict do not count."""
        return int((self.label_BT != PAD).sum())


def collate(
    sources: Sequence[Sequence[int]],
    targets: Sequence[Sequence[int]],
    languages: Sequence[int],
    tags: Sequence[LanguageTags],
    source_languages: Sequence[int | None] | None = None,
) -> Batch:
    """Add tags and </s> to sentence pairs and pad them; `tags` has an entry for each language id.

    `languages` are the target languages. Only models that read the source languages need these.
    """
    inputs, labels = [], []
    for subwords, language in zip(targets, languages, strict=True):
        tag = tags[language]
        inputs.append([tag.start, *tag.target, *subwords])
        labels.append([*(tag.target if tag.target_predicted else [PAD] * len(tag.target)), *subwords, EOS])
    return Batch(
        collate_sources(sources, languages, tags, source_languages),
        _pad_to_longest(inputs),
        _pad_to_longest(labels),
        torch.tensor(languages),
    )


class SideTokenCounts(NamedTuple):
    """The number of tokens on one side of a batch, without and with padding."""

    num_tokens: int
    num_padded_tokens: int
    """Number of sentences times the length of the longest."""

    @classmethod
    def from_lengths(cls, lengths_B: IntArray) -> SideTokenCounts:
        """Count from the lengths of the sentences, which include tags and </s>."""
        return cls(int(lengths_B.sum()), len(lengths_B) * int(lengths_B.max()))


class Collator:
    """Makes batches from a token store: a vectorized `collate`."""

    def __init__(self, store: TokenStore, tags: Sequence[LanguageTags]) -> None:
        self.store, self.target_predicted = store, tags[0].target_predicted
        self.source_LK = np.array([tag.source for tag in tags], dtype=np.int64).reshape(len(tags), -1)
        self.source_language_tag_L = np.array(tags[0].source_language_tags, dtype=np.int64)
        self.num_source_tags, self.start = tags[0].num_source_tags, tags[0].start
        self.target_LK = np.array([tag.target for tag in tags], dtype=np.int64).reshape(len(tags), -1)

    def __call__(
        self,
        source_indices: AnyInts,
        target_indices: AnyInts,
        source_language_ids: IntArray,
        target_language_ids: IntArray,
    ) -> Batch:
        """Make the batch of some sentences of the store, given by index, and their translations."""
        source_BK, target_BK = self.source_LK[target_language_ids], self.target_LK[target_language_ids]
        if len(self.source_language_tag_L):
            source_BK = np.concatenate([self.source_language_tag_L[source_language_ids, None], source_BK], axis=1)
        start_B1 = np.full((len(target_language_ids), 1), self.start)
        labels_BK = target_BK if self.target_predicted else np.full_like(target_BK, PAD)
        arrays = (
            self._padded_rows(source_indices, source_BK, append_eos=True),
            self._padded_rows(target_indices, np.concatenate([start_B1, target_BK], axis=1), append_eos=False),
            self._padded_rows(target_indices, labels_BK, append_eos=True),
            target_language_ids,
        )
        return Batch(*(torch.from_numpy(array) for array in arrays))

    def num_target_tokens_by_language(self, target_indices: AnyInts, target_language_ids: IntArray) -> IntArray:
        """Count the target tokens that a batch has to predict, by language id."""
        num_tokens_B = self.num_target_tokens_per_sentence(target_indices)
        return np.bincount(target_language_ids, weights=num_tokens_B, minlength=len(self.target_LK)).astype(np.int64)

    def num_target_tokens_per_sentence(self, target_indices: AnyInts) -> IntArray:
        """Count the tokens to predict in each target sentence."""
        return self.store.lengths(target_indices) + 1 + (self.target_LK.shape[1] if self.target_predicted else 0)

    def num_source_tokens(self, source_indices: AnyInts) -> int:
        """Count the source tokens of a batch, tags and </s> included."""
        return int(self.store.lengths(source_indices).sum()) + len(source_indices) * (self.num_source_tags + 1)

    def token_counts(self, source_indices: AnyInts, target_indices: AnyInts) -> tuple[SideTokenCounts, SideTokenCounts]:
        """Count the tokens of the source side and of the decoder input."""
        source_lengths, target_lengths = (self.store.lengths(side) for side in (source_indices, target_indices))
        return (
            SideTokenCounts.from_lengths(source_lengths + self.num_source_tags + 1),
            SideTokenCounts.from_lengths(target_lengths + self.target_LK.shape[1] + 1),
        )

    def _padded_rows(self, sentences: AnyInts, prefix_BK: IntArray, append_eos: bool) -> IntArray:
        """Return padded rows of sentences of the store: a prefix, the subwords and, with `append_eos`, </s>."""
        lengths = self.store.lengths(sentences)
        prefix_length, ends = prefix_BK.shape[1], np.cumsum(lengths)
        width = prefix_length + int(lengths.max()) + append_eos
        row_starts = np.arange(len(sentences)) * width + prefix_length
        padded = np.full(len(sentences) * width, PAD, dtype=np.int64)
        position = np.arange(ends[-1])
        store_position = position + np.repeat(self.store.offsets[sentences] - (ends - lengths), lengths)
        padded[position + np.repeat(row_starts - (ends - lengths), lengths)] = self.store.tokens[store_position]
        if append_eos:
            padded[row_starts + lengths] = EOS
        padded_BT = padded.reshape(len(sentences), width)
        padded_BT[:, :prefix_length] = prefix_BK
        return padded_BT


def collate_sources(
    sources: Sequence[Sequence[int]],
    languages: Sequence[int],
    tags: Sequence[LanguageTags],
    source_languages: Sequence[int | None] | None = None,
) -> Tensor:
    """Collate the source side alone, for decoding."""
    rows = zip(sources, languages, source_languages or [None] * len(sources), strict=True)
    return _pad_to_longest([[*tags[target].source_prefix(source), *subwords, EOS] for subwords, target, source in rows])


def _pad_to_longest(sentences: Sequence[Sequence[int]]) -> Tensor:
    lengths = np.fromiter(map(len, sentences), dtype=np.int64, count=len(sentences))
    padded = np.full((len(sentences), lengths.max()), PAD, dtype=np.int64)
    padded[np.arange(lengths.max()) < lengths[:, None]] = list(chain.from_iterable(sentences))
    return torch.from_numpy(padded)
