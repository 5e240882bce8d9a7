"""Reads the compiled normalization table of a SentencePiece model: a double-array trie of sequences to replace.

Each unit of the trie has 32 bits: a label (the byte that leads to it) or a value, a bit for the presence of a value,
and the offset of its children, as in the library darts-clone.
"""

from __future__ import annotations

import struct
import sys
import unicodedata
from collections.abc import Iterator

from manyglot.errors import FolderError


class NormalizationTable:
    """A compiled table, which replaces sequences of characters."""

    def __init__(self, charsmap: bytes) -> None:
        try:
            num_bytes = struct.unpack_from("<I", charsmap)[0]
            self._units = struct.unpack_from(f"<{num_bytes // 4}I", charsmap, 4)
        except struct.error:
            raise FolderError("The normalization table of the SentencePiece model is damaged.") from None
        self._texts = charsmap[4 + num_bytes :]

    def replacement(self, text: str) -> str | None:
        """Return the replacement of a sequence, or None if the table does not have it."""
        position = 0
        for byte in text.encode():
            position = self._children(position) ^ byte
            if position >= len(self._units) or self._units[position] & 0x800000FF != byte:
                return None
        if not self._units[position] & 0x100:
            return None
        start = self._units[self._children(position)] & 0x7FFFFFFF
        return self._texts[start : self._texts.index(0, start)].decode()

    def compositions(self) -> list[tuple[str, str]]:
        """Return the pairs of a letter with marks and the character that replaces both, longest first.

        Neither the letter nor the marks have replacements of their own. Korean syllables are left out, because there
        are thousands.
        """
        found = {
            text: replacement
            for code in range(sys.maxunicode + 1)
            for text in _decompositions(chr(code))
            if (replacement := self.replacement(text)) is not None and not any(map(self.replacement, text))
        }
        return sorted(found.items(), key=lambda item: (-len(item[0]), item))

    def _children(self, position: int) -> int:
        unit: int = self._units[position]
        return position ^ ((unit >> 10) << ((unit & 0x200) >> 6))


def _decompositions(character: str) -> Iterator[str]:
    """Yield the canonically equivalent sequences of a character that Unicode lists, shortest first."""
    codes = unicodedata.decomposition(character)
    if codes and not codes.startswith("<"):
        first, *marks = (chr(int(code, 16)) for code in codes.split())
        for sequence in (first, *_decompositions(first)):
            yield "".join([sequence, *marks])
