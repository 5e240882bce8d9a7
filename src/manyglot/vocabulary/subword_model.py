"""The SentencePiece subword model. No other module uses the library."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import sentencepiece
from pydantic import Field

from manyglot.config.base_settings import MAX_COUNT, Settings
from manyglot.errors import FolderError, SettingsError
from manyglot.files import read_small_file

PAD, EOS, UNK = 0, 1, 2
MAX_MODEL_BYTES = 2**25
"""Maximum size of a SentencePiece file; a model with a million pieces needs about half of it."""


class VocabularySettings(Settings):
    """Training of the subword model."""

    size: int = Field(64_000, ge=64, le=2**22)
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


class SubwordModel:
    """A trained SentencePiece model: text to ids and back.

    Our ids start with <pad>, </s> and <unk>, followed by all other pieces. A model trained elsewhere may number them
    differently or lack <pad>; its ids are mapped to ours.
    """

    def __init__(self, serialized: bytes) -> None:
        self.serialized = serialized
        self._processor = sentencepiece.SentencePieceProcessor()
        self._processor.LoadFromSerializedProto(serialized)
        symbols = (self._processor.pad_id(), self._processor.eos_id(), self._processor.unk_id())
        pieces = range(self._processor.GetPieceSize())
        special = {*symbols, self._processor.bos_id()}
        self._sentencepiece_ids = [*symbols, *(i for i in pieces if i not in special)]
        self._our_ids = [UNK] * len(pieces)
        for our_id, sentencepiece_id in enumerate(self._sentencepiece_ids):
            if sentencepiece_id >= 0:
                self._our_ids[sentencepiece_id] = our_id
        self._same_numbering = self._sentencepiece_ids == list(pieces)

    @classmethod
    def load(cls, path: Path, max_bytes: int = MAX_MODEL_BYTES) -> SubwordModel:
        """Read a SentencePiece model file. `max_bytes` limits its size; loading takes fifty times as much memory."""
        serialized = read_small_file(path, max_bytes)
        try:
            subword_model = cls(serialized)
            subword_model._check_utf8()
        except (RuntimeError, ValueError):
            raise FolderError(f"{path} is not a SentencePiece model, or it is damaged.") from None
        return subword_model

    def _check_utf8(self) -> None:
        """Raise if a piece is not UTF-8, before it appears in a translation."""
        self._processor.IdToPiece(list(range(self._processor.GetPieceSize())))
        self._processor.DecodeIds([self._processor.unk_id()])

    def save(self, path: Path) -> None:
        """Write the SentencePiece model file."""
        path.write_bytes(self.serialized)

    def __len__(self) -> int:
        return len(self._sentencepiece_ids)

    def pieces(self) -> list[str]:
        """All subwords as text in the order of our ids. A special symbol that the model lacks gets its usual name."""
        usual_names = ("<pad>", "</s>", "<unk>")
        return [
            self._processor.IdToPiece(sentencepiece_id) if sentencepiece_id >= 0 else usual_names[our_id]
            for our_id, sentencepiece_id in enumerate(self._sentencepiece_ids)
        ]

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Split sentences into subword ids without special symbols."""
        ids: list[list[int]] = self._processor.EncodeAsIds(list(texts))
        return ids if self._same_numbering else [[self._our_ids[i] for i in sequence] for sequence in ids]

    def unknown_characters(self, text: str) -> list[str]:
        """Return the distinct characters of a text that the model does not know, in order. It reads lines as spaces."""
        characters = [character for character in dict.fromkeys(text) if character not in " \r\n"]
        return [
            character for character, ids in zip(characters, self.encode(characters), strict=True) if ids and UNK in ids
        ]

    def decode(self, ids: Sequence[Sequence[int]]) -> list[str]:
        """Join subword ids into sentences."""
        if not self._same_numbering:
            ids = [[self._sentencepiece_ids[i] for i in sequence] for sequence in ids]
        texts: list[str] = self._processor.DecodeIds([list(sequence) for sequence in ids]) if ids else []
        return texts


SUGGESTED_SIZE_DIVISOR = 7
"""An error suggests this fraction of the subwords that a text can yield, which are nearly all of its words."""


def train_subword_model(texts: Iterable[str], settings: VocabularySettings) -> SubwordModel:
    """Train a BPE model on text without normalizing it."""
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.Train(
            sentence_iterator=iter(texts),
            model_writer=model,
            model_type="bpe",
            vocab_size=settings.size,
            character_coverage=settings.character_coverage,
            normalization_rule_name="identity",
            split_digits=settings.split_digits,
            byte_fallback=settings.byte_fallback,
            pad_id=PAD,
            eos_id=EOS,
            unk_id=UNK,
            bos_id=-1,
            max_sentence_length=65_536,
            minloglevel=2,
        )
    except RuntimeError as error:
        raise SettingsError(_explain_training_error(str(error), settings)) from None
    return SubwordModel(model.getvalue())


def _explain_training_error(message: str, settings: VocabularySettings) -> str:
    if limit := re.search(r"<= (\d+)", message):
        suggestion = int(limit[1]) // SUGGESTED_SIZE_DIVISOR // 1000 * 1000
        advice = f"Lower it; about {suggestion} may suit so little text." if suggestion else "Lower it."
        return f"vocabulary.size: {settings.size} is too large; this text yields at most {limit[1]} subwords. {advice}"
    if "required_chars" in message or "too small" in message.lower():
        return (
            f"vocabulary.size: {settings.size} is smaller than the number of distinct characters in the text. "
            f"Increase it, or lower vocabulary.character_coverage."
        )
    return f"vocabulary: SentencePiece failed to train: {message}"
