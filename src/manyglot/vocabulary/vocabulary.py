"""The numbers a model reads and writes: subwords first, then one tag for each language.

Tags are symbols, never text: they are added to sequences of ids, so no sentence can contain one by accident and no
tokenizer can split one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from manyglot.corpus.languages import Languages
from manyglot.vocabulary.subwords import EOS, Subwords


@dataclass(frozen=True)
class Tags:
    """The symbols that tell a target language inside the sequences, put there by the batches and the translator."""

    source: tuple[int, ...] = ()
    """Before the source sentence."""
    target: tuple[int, ...] = ()
    """Before the target sentence, after the symbol that starts every target."""
    predicted: bool = True
    """Whether the target tags are predicted like words: part of the loss and of the score."""

    def __add__(self, other: Tags) -> Tags:
        return Tags(self.source + other.source, self.target + other.target, self.predicted and other.predicted)


class Vocabulary:
    """Subwords and language tags under one numbering."""

    def __init__(self, subwords: Subwords, languages: Languages) -> None:
        self.subwords = subwords
        self.languages = languages

    def __len__(self) -> int:
        return len(self.subwords) + len(self.languages)

    def tag_id(self, language_id: int) -> int:
        """The number of a language's tag."""
        return len(self.subwords) + language_id

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Sentences to ids, without special symbols; equal ones, of several directions say, are split once."""
        once = list(dict.fromkeys(texts))
        ids = dict(zip(once, self.subwords.encode(once), strict=True))
        return [ids[text] for text in texts]

    def decode(self, ids: Sequence[Sequence[int]]) -> list[str]:
        """Ids to sentences; tags and special symbols are left out."""
        words = range(EOS + 1, len(self.subwords))
        return self.subwords.decode([[i for i in each if i in words] for each in ids])
