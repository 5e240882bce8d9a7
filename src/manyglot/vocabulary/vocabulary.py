"""The vocabulary of a model: the subwords, followed by one tag per language.

Tags are symbols, never text. They are added to sequences of ids, so no sentence can contain one by accident and no
tokenizer can split one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from manyglot.corpus.languages import Languages
from manyglot.vocabulary.subword_model import EOS, SubwordModel

_Encoder = Callable[[Sequence[str]], list[list[int]]]


@dataclass(frozen=True)
class LanguageTags:
    """The ids that mark the languages in source and target sequences, for one target language.

    Batching and decoding add them.
    """

    source: tuple[int, ...] = ()
    """Tags before the source sentence."""
    target: tuple[int, ...] = ()
    """Tags before the target sentence, after the start symbol."""
    target_predicted: bool = True
    """Whether the model predicts the target tags, so that they count in the loss and in the length of a hypothesis."""
    start: int = EOS
    """The symbol that starts every target sentence."""
    source_language_tags: Sequence[int] = ()
    """The tag of each source language, which begins the source sequence; empty if the model does not read it."""

    @property
    def num_predicted(self) -> int:
        """Number of target tags that the model predicts."""
        return len(self.target) if self.target_predicted else 0

    @property
    def num_source_tags(self) -> int:
        """Number of all tags before a source sentence."""
        return len(self.source) + bool(self.source_language_tags)

    def source_prefix(self, source_language: int | None) -> tuple[int, ...]:
        """Return all tags before a source sentence; its language is needed if the model reads it."""
        if not self.source_language_tags:
            return self.source
        assert source_language is not None, "this model needs the source language"
        return (self.source_language_tags[source_language], *self.source)

    def __add__(self, other: LanguageTags) -> LanguageTags:
        return replace(
            self,
            source=self.source + other.source,
            target=self.target + other.target,
            target_predicted=self.target_predicted and other.target_predicted,
        )


class Vocabulary:
    """Subwords and language tags with common ids."""

    def __init__(self, subword_model: SubwordModel, languages: Languages) -> None:
        self.subword_model = subword_model
        self.languages = languages

    def __len__(self) -> int:
        return len(self.subword_model) + len(self.languages)

    def tag_id(self, language_id: int) -> int:
        """The id of a language's tag."""
        return len(self.subword_model) + language_id

    def encode(self, texts: Sequence[str], languages: Sequence[str | None] | None = None) -> list[list[int]]:
        """Split source sentences into ids without special symbols. Equal sentences are split once.

        The language of a sentence, if known, matters only for languages with subwords of their own.
        """
        return self._encode(texts, languages, lambda model: model.encode)

    def encode_targets(self, texts: Sequence[str], languages: Sequence[str | None] | None = None) -> list[list[int]]:
        """Split target sentences, or beginnings of them, into ids without special symbols."""
        return self._encode(texts, languages, lambda model: model.encode_targets)

    def _encode(
        self,
        texts: Sequence[str],
        languages: Sequence[str | None] | None,
        encoder_of: Callable[[SubwordModel], _Encoder],
    ) -> list[list[int]]:
        further = self.subword_model.further_languages
        rows: dict[str | None, list[int]] = {}
        for row, code in enumerate(languages or [None] * len(texts)):
            rows.setdefault(code if code in further else None, []).append(row)
        encoded: list[list[int]] = [[]] * len(texts)
        for code, rows_of_model in rows.items():
            encode = encoder_of(self.subword_model.for_language(code))
            ids_by_row = _encode_unique(encode, [texts[row] for row in rows_of_model])
            for row, ids in zip(rows_of_model, ids_by_row, strict=True):
                encoded[row] = ids
        return encoded

    def decode(self, ids: Sequence[Sequence[int]]) -> list[str]:
        """Join ids into sentences, ignoring tags and special symbols."""
        text_ids = range(EOS + 1, len(self.subword_model))
        return self.subword_model.decode([[i for i in sequence if i in text_ids] for sequence in ids])


def _encode_unique(encode: _Encoder, texts: Sequence[str]) -> list[list[int]]:
    unique = list(dict.fromkeys(texts))
    ids = dict(zip(unique, encode(unique), strict=True))
    return [ids[text] for text in texts]
