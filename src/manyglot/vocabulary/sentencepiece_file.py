"""Reads the pieces and the normalization of a SentencePiece model file, which is a protocol buffer; removes pieces.

The sentencepiece library gives no access to some of these fields without the protobuf package.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Set
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from manyglot.errors import FolderError

_PIECE, _TRAINER, _NORMALIZER, _SELF_TEST = 1, 2, 3, 4
"""The numbers of the fields of a model file."""
_INPUT_FORMAT = 7
"""The number of a field of the settings of the trainer."""


class PieceType(IntEnum):
    """The types of pieces."""

    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6


@dataclass(frozen=True)
class Piece:
    """One entry of the vocabulary."""

    text: str
    score: float
    type: PieceType


@dataclass(frozen=True)
class SentencePieceFile:
    """What decides how a SentencePiece model splits text."""

    pieces: tuple[Piece, ...]
    algorithm: str
    """unigram, bpe, word or char."""
    byte_fallback: bool
    """Whether unknown characters become bytes."""
    charsmap: bytes
    """The compiled table of the normalization; empty for the identity."""
    add_dummy_prefix: bool
    """Whether a space is added before the text."""
    remove_extra_whitespaces: bool
    """Whether spaces at both ends are removed, and repeated spaces become one."""
    escape_whitespaces: bool
    """Whether a space becomes the character U+2581."""
    whitespace_is_suffix: bool
    """Whether the space belongs to the end of a word instead of its beginning."""

    @classmethod
    def parse(cls, serialized: bytes) -> SentencePieceFile:
        """Parse the content of a model file."""
        try:
            fields = list(_iter_fields(serialized))
            pieces = tuple(_parse_piece(value) for number, value, _ in fields if number == _PIECE)
            last_values = {number: value for number, value, _ in fields}
            trainer, normalizer = (_read_message(last_values.get(number, b"")) for number in (_TRAINER, _NORMALIZER))
            return cls(
                pieces,
                algorithm=("unigram", "bpe", "word", "char")[trainer.get(3, 1) - 1],
                byte_fallback=bool(trainer.get(35, 0)),
                charsmap=normalizer.get(2, b""),
                add_dummy_prefix=bool(normalizer.get(3, 1)),
                remove_extra_whitespaces=bool(normalizer.get(4, 1)),
                escape_whitespaces=bool(normalizer.get(5, 1)),
                whitespace_is_suffix=bool(trainer.get(24, 0)),
            )
        except (IndexError, KeyError, TypeError, ValueError, struct.error):
            raise FolderError("The SentencePiece model is damaged.") from None


def remove_pieces(serialized: bytes, texts: Set[str]) -> bytes:
    """Return a model file without some of its normal pieces, and without its test of itself."""
    kept, end = [], 0
    for number, value, next_end in _iter_fields(serialized):
        start, end = end, next_end
        if number == _PIECE:
            piece = _parse_piece(value)
            is_removed = piece.type == PieceType.NORMAL and piece.text in texts
        else:
            is_removed = number == _SELF_TEST
        if not is_removed:
            kept.append(serialized[start:end])
    return b"".join(kept)


def remove_input_format(serialized: bytes) -> bytes:
    """Return a model file that does not record the format of its training text, such as tsv."""
    parts, end = [], 0
    for number, value, next_end in _iter_fields(serialized):
        start, end = end, next_end
        if number != _TRAINER:
            parts.append(serialized[start:end])
            continue
        kept, field_end = [], 0
        for trainer_number, _, next_field_end in _iter_fields(value):
            field_start, field_end = field_end, next_field_end
            if trainer_number != _INPUT_FORMAT:
                kept.append(value[field_start:field_end])
        trainer = b"".join(kept)
        parts.append(_write_varint(_TRAINER << 3 | 2) + _write_varint(len(trainer)) + trainer)
    return b"".join(parts)


def _parse_piece(content: bytes) -> Piece:
    fields = _read_message(content)
    return Piece(fields.get(1, b"").decode(), fields.get(2, 0.0), PieceType(fields.get(3, PieceType.NORMAL)))


def _read_message(content: bytes) -> dict[int, Any]:
    """Return the fields of a message by number. The last value of a repeated field counts."""
    return {number: value for number, value, _ in _iter_fields(content)}


def _iter_fields(content: bytes) -> Iterator[tuple[int, Any, int]]:
    """Yield the number and value of each field of a message, and the position of its end."""
    position = 0
    while position < len(content):
        key, position = _read_varint(content, position)
        match key & 7:
            case 0:
                value: Any
                value, position = _read_varint(content, position)
            case 1:
                value, position = struct.unpack_from("<d", content, position)[0], position + 8
            case 2:
                length, position = _read_varint(content, position)
                value, position = content[position : position + length], position + length
                if position > len(content):
                    raise ValueError("a field is truncated")
            case 5:
                value, position = struct.unpack_from("<f", content, position)[0], position + 4
            case kind:
                raise ValueError(f"unknown wire type {kind}")
        yield key >> 3, value, position


def _write_varint(value: int) -> bytes:
    """Encode a number with variable length."""
    encoded = bytearray()
    while value > 127:
        encoded.append(value & 127 | 128)
        value >>= 7
    return bytes([*encoded, value])


def _read_varint(content: bytes, position: int) -> tuple[int, int]:
    """Read a number of variable length; return it and the position after it."""
    value = shift = 0
    while True:
        byte = content[position]
        value, shift, position = value | (byte & 127) << shift, shift + 7, position + 1
        if byte < 128:
            return value, position
