"""A batch: sentence pairs as padded tensors, with the target language of each sentence.

Shape letters: B sentences, S source tokens, T target tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import torch
from torch import Tensor

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

    def to(self, device: torch.device) -> Batch:
        """The same batch on a device."""
        return Batch(*(getattr(self, field.name).to(device, non_blocking=True) for field in fields(self)))

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


def tag_sources(sources: Sequence[Sequence[int]], languages: Sequence[int], tags: Sequence[Tags]) -> Tensor:
    """The source side alone, as decoding needs it."""
    return _pad([[*tags[language].source, *words, EOS] for words, language in zip(sources, languages, strict=True)])


def _pad(sentences: Sequence[Sequence[int]]) -> Tensor:
    padded = torch.full((len(sentences), max(map(len, sentences))), PAD)
    for row, sentence in enumerate(sentences):
        padded[row, : len(sentence)] = torch.as_tensor(sentence)
    return padded
