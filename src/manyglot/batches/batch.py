"""A batch: sentence pairs as padded tensors, with the target language of each sentence.

Shape letters: B sentences, S source tokens, T target tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from itertools import chain
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from manyglot.batches.store import AnyInts, IntArray, TokenStore
from manyglot.vocabulary.subwords import EOS, PAD
from manyglot.vocabulary.vocabulary import Tags


@dataclass(frozen=True)
class Batch:
    """What a model is trained on at once; every sentence has its own target language."""

    source_BS: Tensor
    """Source sentences: [tags] words </s>, padded."""
    input_BT: Tensor
    """What the decoder reads: </s> [tags] words, padded."""
    label_BT: Tensor
    """What it should predict: [tags] words </s>; padding, and tags that are not predicted, are not scored."""
    lang_B: Tensor
    """The id of each sentence's target language."""

    def select(self, rows_B: Tensor) -> Batch:
        """Some of its sentences."""
        return Batch(*(getattr(self, field.name)[rows_B] for field in fields(self)))

    def __len__(self) -> int:
        return len(self.lang_B)

    @property
    def num_tokens(self) -> int:
        """Target tokens that are predicted."""
        return int((self.label_BT != PAD).sum())


def collate(
    sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]], languages: Sequence[int], tags: Sequence[Tags]
) -> Batch:
    """Put sentence pairs into tensors and add the symbols around them; `tags` has an entry for each language id."""
    inputs, labels = [], []
    for words, language in zip(targets, languages, strict=True):
        tag = tags[language]
        inputs.append([EOS, *tag.target, *words])
        labels.append([*(tag.target if tag.predicted else [PAD] * len(tag.target)), *words, EOS])
    return Batch(tag_sources(sources, languages, tags), _pad(inputs), _pad(labels), torch.tensor(languages))


class Extent(NamedTuple):
    """How large a side of a batch is."""

    tokens: int
    padded: int
    """Places of its sentences when all are as long as the longest."""

    @classmethod
    def of(cls, lengths_B: IntArray) -> Extent:
        """From the lengths of its sentences, symbols included."""
        return cls(int(lengths_B.sum()), len(lengths_B) * int(lengths_B.max()))


class Collator:
    """Makes batches straight from the store: `collate` for whole arrays at once."""

    def __init__(self, store: TokenStore, tags: Sequence[Tags]) -> None:
        self.store, self.predicted = store, tags[0].predicted
        self.source_LK = np.array([tag.source for tag in tags], dtype=np.int64).reshape(len(tags), -1)
        self.target_LK = np.array([tag.target for tag in tags], dtype=np.int64).reshape(len(tags), -1)

    def __call__(self, source: AnyInts, target: AnyInts, language: IntArray) -> Batch:
        """The batch of some sentences of the store and their translations, in the given target languages."""
        source_BK, target_BK = self.source_LK[language], self.target_LK[language]
        start_B1 = np.full((len(language), 1), EOS)
        labels_BK = target_BK if self.predicted else np.full_like(target_BK, PAD)
        arrays = (
            self._sentences(source, source_BK, ends=True),
            self._sentences(target, np.concatenate([start_B1, target_BK], axis=1), ends=False),
            self._sentences(target, labels_BK, ends=True),
            language,
        )
        return Batch(*(torch.from_numpy(array) for array in arrays))

    def tokens_by_language(self, target: AnyInts, language: IntArray) -> IntArray:
        """How many target tokens a batch would have to predict, by language."""
        numbers = self.num_tokens(target)
        return np.bincount(language, weights=numbers, minlength=len(self.target_LK)).astype(np.int64)

    def num_tokens(self, target: AnyInts) -> IntArray:
        """How many tokens there are to predict in each of some target sentences."""
        return self.store.lengths(target) + 1 + (self.target_LK.shape[1] if self.predicted else 0)

    def num_source_tokens(self, source: AnyInts) -> int:
        """How many source tokens a batch would have."""
        return int(self.store.lengths(source).sum()) + len(source) * (self.source_LK.shape[1] + 1)

    def extents(self, source: AnyInts, target: AnyInts) -> tuple[Extent, Extent]:
        """How large a batch would be: its source, and what the decoder reads."""
        read, written = (self.store.lengths(side) for side in (source, target))
        return Extent.of(read + self.source_LK.shape[1] + 1), Extent.of(written + self.target_LK.shape[1] + 1)

    def _sentences(self, numbers: AnyInts, before_BK: IntArray, ends: bool) -> IntArray:
        """Padded rows: what comes before, the subwords, the end."""
        lengths = self.store.lengths(numbers)
        num_before, through = before_BK.shape[1], np.cumsum(lengths)
        width = num_before + int(lengths.max()) + ends
        row_starts = np.arange(len(numbers)) * width + num_before
        padded = np.full(len(numbers) * width, PAD, dtype=np.int64)
        place = np.arange(through[-1])
        taken = place + np.repeat(self.store.offsets[numbers] - (through - lengths), lengths)
        padded[place + np.repeat(row_starts - (through - lengths), lengths)] = self.store.tokens[taken]
        if ends:
            padded[row_starts + lengths] = EOS
        padded_BT = padded.reshape(len(numbers), width)
        padded_BT[:, :num_before] = before_BK
        return padded_BT


def tag_sources(sources: Sequence[Sequence[int]], languages: Sequence[int], tags: Sequence[Tags]) -> Tensor:
    """The source side alone, as decoding needs it."""
    return _pad([[*tags[language].source, *words, EOS] for words, language in zip(sources, languages, strict=True)])


def _pad(sentences: Sequence[Sequence[int]]) -> Tensor:
    lengths = np.fromiter(map(len, sentences), dtype=np.int64, count=len(sentences))
    padded = np.full((len(sentences), lengths.max()), PAD, dtype=np.int64)
    padded[np.arange(lengths.max()) < lengths[:, None]] = list(chain.from_iterable(sentences))
    return torch.from_numpy(padded)
