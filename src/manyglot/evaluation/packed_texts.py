"""Many short texts in one block of memory.

The outputs of all directions of a large test set are millions of strings. As UTF-8 they need about a third of the
memory, and they are sent to another process in no time.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import overload


class PackedTexts(Sequence[str]):
    """A sequence of texts, stored as UTF-8. Every access decodes a text anew."""

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self._bytes = bytearray()
        self._ends = array("q")
        for text in texts:
            self.append(text)

    def append(self, text: str) -> None:
        """Add a text at the end."""
        self._bytes += text.encode("utf-8", "surrogatepass")
        self._ends.append(len(self._bytes))

    def __len__(self) -> int:
        return len(self._ends)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> PackedTexts: ...
    def __getitem__(self, index: int | slice) -> str | PackedTexts:
        if isinstance(index, slice):
            return PackedTexts(self[i] for i in range(*index.indices(len(self))))
        i = range(len(self))[index]
        return self._decode(self._ends[i - 1] if i else 0, self._ends[i])

    def __iter__(self) -> Iterator[str]:
        start = 0
        for end in self._ends:
            yield self._decode(start, end)
            start = end

    def _decode(self, start: int, end: int) -> str:
        return self._bytes[start:end].decode("utf-8", "surrogatepass")
