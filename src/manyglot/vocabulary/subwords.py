"""Subwords by SentencePiece; the only file that knows the library."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import sentencepiece
from pydantic import Field

from manyglot.config.settings import Settings
from manyglot.errors import FolderError, SettingsError
from manyglot.files import read_file

PAD, EOS, UNK = 0, 1, 2
LARGEST_FILE = 2**25
"""Bytes of a subword model; one of a million pieces has about half of that."""


class VocabularySettings(Settings):
    """How the subwords are learnt."""

    size: int = Field(64_000, ge=64)
    """Number of subwords, special symbols included and language tags not."""
    character_coverage: float = Field(1.0, gt=0, le=1)
    """Share of the characters that get a subword; the rest becomes <unk>."""
    split_digits: bool = False
    """Make every digit a subword of its own, so that numbers can be copied digit by digit."""
    byte_fallback: bool = False
    """Spell unknown characters by their bytes instead of <unk>."""
    sample: int | None = Field(None, ge=1)
    """Learn from about this many training sentences, sampled by language in proportion to size^(1/5); null learns from
    all."""
    model: Path | None = None
    """Use this SentencePiece model instead of learning one; `size` is then the model's own."""


class Subwords:
    """A trained SentencePiece model: text to ids and back.

    Our numbers are <pad>, </s>, <unk> and then all other pieces. A model that was made elsewhere may number them
    otherwise, or lack <pad>; it is translated.
    """

    def __init__(self, serialized: bytes) -> None:
        self.serialized = serialized
        self._processor = sentencepiece.SentencePieceProcessor()
        self._processor.LoadFromSerializedProto(serialized)
        symbols = (self._processor.pad_id(), self._processor.eos_id(), self._processor.unk_id())
        pieces = range(self._processor.GetPieceSize())
        special = {*symbols, self._processor.bos_id()}
        self._theirs = [*symbols, *(i for i in pieces if i not in special)]
        self._ours = [UNK] * len(pieces)
        for ours, theirs in enumerate(self._theirs):
            if theirs >= 0:
                self._ours[theirs] = ours
        self._same = self._theirs == list(pieces)

    @classmethod
    def load(cls, path: Path, most: int = LARGEST_FILE) -> Subwords:
        """Read a SentencePiece model file of at most so many bytes; in memory it takes fifty times as many."""
        serialized = read_file(path, most)
        try:
            subwords = cls(serialized)
            subwords._check_text()
        except (RuntimeError, ValueError):
            raise FolderError(f"{path} is not a SentencePiece model, or it is damaged.") from None
        return subwords

    def _check_text(self) -> None:
        """Notice a piece that is not UTF-8 before a translation has it."""
        self._processor.IdToPiece(list(range(self._processor.GetPieceSize())))
        self._processor.DecodeIds([self._processor.unk_id()])

    def save(self, path: Path) -> None:
        """Write the SentencePiece model file."""
        path.write_bytes(self.serialized)

    def __len__(self) -> int:
        return len(self._theirs)

    def pieces(self) -> list[str]:
        """The subwords as text, by our numbers; a symbol that the model lacks has its usual name."""
        usual = ("<pad>", "</s>", "<unk>")
        return [self._processor.IdToPiece(i) if i >= 0 else usual[ours] for ours, i in enumerate(self._theirs)]

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Split sentences into subword ids, without special symbols."""
        ids: list[list[int]] = self._processor.EncodeAsIds(list(texts))
        return ids if self._same else [[self._ours[i] for i in each] for each in ids]

    def decode(self, ids: Sequence[Sequence[int]]) -> list[str]:
        """Join subword ids into sentences."""
        theirs = ids if self._same else [[self._theirs[i] for i in each] for each in ids]
        texts: list[str] = self._processor.DecodeIds([list(each) for each in theirs]) if theirs else []
        return texts


def train_subwords(texts: Iterable[str], settings: VocabularySettings) -> Subwords:
    """Learn BPE subwords from text, without changing the text first (identity normalisation)."""
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
        raise SettingsError(_explain(str(error), settings)) from None
    return Subwords(model.getvalue())


def _explain(message: str, settings: VocabularySettings) -> str:
    if limit := re.search(r"<= (\d+)", message):
        return f"vocabulary.size: {settings.size} is too many; this text gives at most {limit[1]} subwords."
    if "required_chars" in message or "too small" in message.lower():
        return (
            f"vocabulary.size: {settings.size} is fewer than the characters of the text. "
            f"Ask for more, or lower vocabulary.character_coverage."
        )
    return f"vocabulary: SentencePiece could not learn subwords: {message}"
