"""Arguments of the kernels. This module does not need Triton."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from manyglot.model.kernels.attention_tiles import TileGroups, fits_tile
from manyglot.model.packing import PackedSentences


class DropoutMaskParameters(NamedTuple):
    """The parameters from which a kernel derives a dropout mask; the seed is in device memory."""

    probability: float
    seed: Tensor
    dropout_index: int


class TopCandidates(NamedTuple):
    """The best candidates of each sentence, and the logsumexp of every row of logits."""

    beam_BC: Tensor
    token_BC: Tensor
    logsumexp_N: Tensor


class PackedMask(NamedTuple):
    """Which packed tokens attend to which: query tokens to the key tokens of the sentence with the same index."""

    query: PackedSentences
    key: PackedSentences
    groups: TileGroups[Tensor]
    causal: bool = False

    @property
    def fits_tile(self) -> bool:
        """Whether each sentence fits into a tile of the attention kernel."""
        return fits_tile(max(self.query.max_length, self.key.max_length))
