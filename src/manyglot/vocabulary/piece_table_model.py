"""A table of pieces, and the SentencePiece models that split text into them, as M2M100 and Marian have.

SentencePiece only splits; the table numbers the pieces. A piece that is not in the table is unknown. Sources and
targets may have different SentencePiece models.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

from manyglot.vocabulary.sentencepiece_model import load_processor
from manyglot.vocabulary.subword_file import SPACE, PieceList, pack
from manyglot.vocabulary.subword_model import UNK, SubwordModel


class PieceTableModel(SubwordModel):
    """One or two SentencePiece models with a common table of pieces."""

    kind: ClassVar = "piece_table"

    def __init__(self, piece_list: PieceList, source_model: bytes, target_model: bytes | None = None) -> None:
        self._piece_list = piece_list
        self._source = load_processor(source_model)
        self._target = self._source if target_model is None else load_processor(target_model)
        self._ids = {piece: i for i, piece in enumerate(piece_list.pieces) if i in piece_list.text_ids}
        files = {"source.spm": source_model} | ({} if target_model is None else {"target.spm": target_model})
        self.serialized = pack(self.kind, {"pieces.json": piece_list.to_json(), **files})

    def __len__(self) -> int:
        return len(self._piece_list.pieces)

    def pieces(self) -> list[str]:
        """All pieces in the order of their ids."""
        return list(self._piece_list.pieces)

    @property
    def splits_targets_differently(self) -> bool:
        """Whether targets have a SentencePiece model of their own."""
        return self._target is not self._source

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Split source sentences into ids without special symbols."""
        return self._look_up(self._source.EncodeAsPieces(list(texts)))

    def encode_targets(self, texts: Sequence[str]) -> list[list[int]]:
        """Split target sentences into ids without special symbols."""
        return self._look_up(self._target.EncodeAsPieces(list(texts)))

    def _look_up(self, sentences: Iterable[Sequence[str]]) -> list[list[int]]:
        return [[self._ids.get(piece, UNK) for piece in sentence] for sentence in sentences]

    def decode(self, ids: Sequence[Sequence[int]]) -> list[str]:
        """Join ids into sentences. Special symbols are left out."""
        pieces = self._piece_list.decodable_pieces(ids)
        texts: list[str] = self._target.DecodePieces(pieces) if pieces else []
        return [text.replace(SPACE, " ").strip() for text in texts]
