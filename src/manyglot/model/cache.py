"""What the decoder remembers between steps: the keys and values of every attention.

Shape letters: B sentences or rows, H heads, S positions, K width of a head.
"""

from __future__ import annotations

from torch import Tensor

ROOM = 16
"""Positions for which room is made at a time: to make it for one would copy all the others in every step."""


class KeyValues:
    """The keys and values of one attention."""

    per_token: bool = False
    """Whether each token of the input is a row of its own here, with its own past: as beams are, side by side."""

    def __init__(self) -> None:
        self.length = 0
        self._both: tuple[Tensor, Tensor] | None = None

    def append(self, key_BHSK: Tensor, value_BHSK: Tensor) -> tuple[Tensor, Tensor]:
        """Add new positions and return all of them."""
        start, self.length = self.length, self.length + key_BHSK.shape[2]
        if self._both is None:
            self._both = key_BHSK, value_BHSK
        elif self.length > self._both[0].shape[2]:
            self._both = _with_room(self._both[0][:, :, :start]), _with_room(self._both[1][:, :, :start])
        if start:
            for all_BHSK, new_BHSK in zip(self._both, (key_BHSK, value_BHSK), strict=True):
                all_BHSK[:, :, start : self.length] = new_BHSK
        return self.get()

    def get(self) -> tuple[Tensor, Tensor]:
        """All positions."""
        assert self._both is not None, "nothing is remembered yet"
        key_BHSK, value_BHSK = (each[:, :, : self.length] for each in self._both)
        return key_BHSK, value_BHSK

    def select(self, rows_B: Tensor) -> None:
        """Keep some rows, in the given order and number."""
        if self._both is not None:
            self._both = self._both[0].index_select(0, rows_B), self._both[1].index_select(0, rows_B)


def _with_room(x_BHSK: Tensor) -> Tensor:
    batch, heads, length, width = x_BHSK.shape
    larger = x_BHSK.new_empty(batch, heads, (length // ROOM + 1) * ROOM, width)
    larger[:, :, :length] = x_BHSK
    return larger


class LayerCache:
    """The two attentions of a decoder layer."""

    def __init__(self) -> None:
        self.self_attention = KeyValues()
        self.cross_attention = KeyValues()


class DecoderCache:
    """All layers, and how many positions are done."""

    def __init__(self, num_layers: int) -> None:
        self.layers = [LayerCache() for _ in range(num_layers)]
        self.length, self.per_token = 0, False

    def fork(self, rows_N: Tensor) -> None:
        """From now on the tokens of a sentence's input are beams, each a row with a past of its own."""
        self.per_token = True
        for layer in self.layers:
            layer.self_attention.per_token = True
        self.select(rows_N)

    def select(self, rows_N: Tensor, sentences_B: Tensor | None = None) -> None:
        """Keep some rows, and some sentences of the memory, which the beams of one share."""
        for layer in self.layers:
            layer.self_attention.select(rows_N)
            if sentences_B is not None:
                layer.cross_attention.select(sentences_B)
