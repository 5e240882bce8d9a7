"""The file of a subword model that consists of several parts: a line of JSON with their sizes, then the parts.

{"kind": "piece_table", "parts": {"pieces.json": 1200, "source.spm": 4000}}
…
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from manyglot.files import parse_json
from manyglot.vocabulary.subword_model import UNK

MAX_HEADER_BYTES = 4096
FIRST_BYTE = b"{"
"""A SentencePiece model cannot begin with this byte."""
SPACE = "▁"
"""The character that stands for a space in a piece."""


def pack(kind: str, parts: Mapping[str, bytes]) -> bytes:
    """Return the content of a file with some parts."""
    header = {"kind": kind, "parts": {name: len(part) for name, part in parts.items()}}
    return b"".join([json.dumps(header).encode("ascii"), b"\n", *parts.values()])


def unpack(content: bytes) -> tuple[str, dict[str, bytes]]:
    """Return the kind and the parts of a file; raise a ValueError if it is damaged."""
    start = content.index(b"\n", 0, MAX_HEADER_BYTES) + 1
    header = parse_json(content[:start].decode("utf-8"))
    sizes = header.get("parts") if isinstance(header, Mapping) else None
    if not isinstance(sizes, Mapping) or not all(type(size) is int and size >= 0 for size in sizes.values()):
        raise ValueError("its header is damaged")
    if start + sum(sizes.values()) != len(content):
        raise ValueError("its parts are incomplete")
    parts = {}
    for name, size in sizes.items():
        parts[name] = content[start : start + size]
        start += size
    return str(header.get("kind")), parts


@dataclass(frozen=True)
class PieceList:
    """The pieces of a model in the order of their ids."""

    pieces: Sequence[str]
    """Distinct pieces. The first three stand for <pad>, </s> and <unk>."""
    special_ids: frozenset[int] = frozenset()
    """Further ids that no text encodes to and that decode to nothing, such as <mask> and unused rows."""

    def __post_init__(self) -> None:
        if len(self.pieces) <= UNK or not all(isinstance(piece, str) for piece in self.pieces):
            raise ValueError("its pieces are damaged")
        if len(set(self.pieces)) < len(self.pieces):
            raise ValueError("a piece is given twice")
        for piece in self.pieces:
            piece.encode("utf-8")  # a UnicodeEncodeError is a ValueError

    @cached_property
    def text_ids(self) -> frozenset[int]:
        """The ids that text encodes to."""
        return frozenset(range(UNK + 1, len(self.pieces))) - self.special_ids

    def decodable_pieces(self, sentences: Sequence[Sequence[int]]) -> list[list[str]]:
        """Return the pieces of some sentences of ids, without special symbols."""
        return [[self.pieces[i] for i in ids if i in self.text_ids] for ids in sentences]

    def to_json(self) -> bytes:
        """Return the content of `pieces.json`."""
        values = {"pieces": list(self.pieces), "special_ids": sorted(self.special_ids)}
        return json.dumps(values, ensure_ascii=False, separators=(",", ":")).encode("utf-8")

    @classmethod
    def from_json(cls, content: bytes) -> PieceList:
        """Read `pieces.json`; raise a ValueError if it is damaged."""
        values = parse_json(content.decode("utf-8"))
        if not isinstance(values, Mapping) or not isinstance(values.get("pieces"), list):
            raise ValueError("its pieces are damaged")
        special = values.get("special_ids")
        if not isinstance(special, list) or not all(type(i) is int for i in special):
            raise ValueError("its special ids are damaged")
        return cls(values["pieces"], frozenset(special))
