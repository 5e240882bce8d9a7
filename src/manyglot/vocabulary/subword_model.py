"""The interface of subword models: text to ids and back. Each kind of model has a module of its own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from pydantic import Field, model_validator

from manyglot.config.base_settings import MAX_COUNT, Settings

PAD, EOS, UNK = 0, 1, 2
SPECIAL_PIECES = ("<pad>", "</s>", "<unk>")
"""The usual names of the first three ids."""

MIN_SUBWORDS = 64


class VocabularySettings(Settings):
    """Training of the subword model."""

    size: int = Field(64_000, ge=MIN_SUBWORDS, le=2**22)
    """Number of subwords, including special symbols but not language tags."""
    character_coverage: float = Field(1.0, ge=0.98, le=1)
    """Share of the characters in the text that the subwords cover, at least 0.98. The others become <unk>."""
    split_digits: bool = False
    """Make every digit a separate subword, so that the model can copy numbers digit by digit."""
    byte_fallback: bool = False
    """Encode unknown characters as bytes instead of <unk>."""
    num_sampled_sentences: int | None = Field(None, ge=1, le=MAX_COUNT)
    """Train on about this many sentences, sampled by language in proportion to size^(1/5); null uses all sentences."""
    sentencepiece_model: Path | None = None
    """Use this SentencePiece model file instead of training one; it then determines `size`."""
    language_specific: tuple[str, ...] = ()
    """Languages that get up to `size` subwords of their own, beside those of sentencepiece_model, with which all other
    text is split. So a new language changes nothing for the languages of a trained model."""

    @model_validator(mode="after")
    def _extends_a_model(self) -> VocabularySettings:
        if self.language_specific and self.sentencepiece_model is None:
            raise ValueError("language_specific needs sentencepiece_model, the subword model of the other languages")
        return self


class SubwordModel(ABC):
    """Splits text into subwords and joins them. The ids start with <pad>, </s> and <unk>.

    No text encodes to <pad>, </s> or a language tag, whatever characters it has.
    """

    kind: ClassVar[str]
    """How users and files name this kind of model."""
    serialized: bytes
    """The content of the file that `save` writes."""

    @abstractmethod
    def __len__(self) -> int:
        """The number of ids, special symbols included."""

    @abstractmethod
    def pieces(self) -> list[str]:
        """All subwords as text in the order of their ids. A special symbol that the model lacks gets its usual name."""

    @abstractmethod
    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Split sentences into subword ids without special symbols."""

    def encode_targets(self, texts: Sequence[str]) -> list[list[int]]:
        """Split sentences of the target side. Only some imported models split them differently."""
        return self.encode(texts)

    @property
    def splits_targets_differently(self) -> bool:
        """Whether `encode_targets` differs from `encode`."""
        return False

    @property
    def original(self) -> SubwordModel:
        """The model without its further languages."""
        return self

    @property
    def further_languages(self) -> Mapping[str, LanguageSubwords]:
        """The languages with subwords of their own. Only an `ExtendedModel` has any."""
        return {}

    def for_language(self, code: str | None) -> SubwordModel:
        """Return the model that splits sentences of a language; None stands for an unknown language."""
        return self

    def ids_of_language(self, code: str) -> Sequence[int]:
        """Return the ids that translations into a language may have."""
        return range(len(self))

    @abstractmethod
    def decode(self, ids: Sequence[Sequence[int]]) -> list[str]:
        """Join subword ids into sentences."""

    def unknown_characters(self, text: str) -> list[str]:
        """Return the distinct characters of a text that the model does not know, in order. It reads lines as spaces."""
        characters = [character for character in dict.fromkeys(text) if character not in " \r\n"]
        return [
            character for character, ids in zip(characters, self.encode(characters), strict=True) if ids and UNK in ids
        ]

    def save(self, path: Path) -> None:
        """Write the model to a file, which `load_subword_model` reads."""
        path.write_bytes(self.serialized)


class LanguageSubwords(SubwordModel):
    """The subword model of one further language, with the ids of the extended model."""

    kind: ClassVar = "language"

    def __init__(self, model: SubwordModel, first_id: int) -> None:
        self.model, self.serialized = model, model.serialized
        self.ids = range(first_id, first_id + len(model) - UNK - 1)
        """The ids of its subwords. Special symbols have the ids of the original model."""
        self._shift = first_id - UNK - 1

    def __len__(self) -> int:
        return len(self.model)

    def pieces(self) -> list[str]:
        """All subwords of the language, after the special symbols."""
        return self.model.pieces()

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Split sentences of the language into ids of the extended model."""
        return [[i if i <= UNK else i + self._shift for i in sentence] for sentence in self.model.encode(texts)]

    def decode(self, ids: Sequence[Sequence[int]]) -> list[str]:
        """Join ids of the extended model into sentences."""
        return self.model.decode([[i if i <= UNK else i - self._shift for i in sentence] for sentence in ids])
