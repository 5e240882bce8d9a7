"""Arguments of kernels; this module needs no Triton."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from manyglot.model.kernels.tiles import TileGroups, fits_tile
from manyglot.model.packing import PackedSentences


class DropoutMask(NamedTuple):
    """How a kernel derives its dropout mask: from a seed in device memory and the number of the dropout site."""

    probability: float
    seed: Tensor
    dropout_index: int


class PackedMask(NamedTuple):
    """Which packed tokens attend to which: those of a sentence to those of the sentence with the same number."""

    query: PackedSentences
    key: PackedSentences
    groups: TileGroups[Tensor]
    causal: bool = False

    @property
    def fits_tile(self) -> bool:
        """Whether each sentence fits into a tile of the attention kernel."""
        return fits_tile(max(self.query.max_length, self.key.max_length))
