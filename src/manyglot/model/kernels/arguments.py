"""Arguments of kernels; this module needs no Triton."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from manyglot.batches.packing import LONG, Groups, Sentences


class DropoutMask(NamedTuple):
    """How a kernel derives its dropout mask: from a seed in device memory and the number of the dropout site."""

    probability: float
    seed: Tensor
    site: int


class PackedMask(NamedTuple):
    """Which packed tokens attend to which: those of a sentence to those of the sentence with the same number."""

    query: Sentences
    key: Sentences
    groups: Groups
    causal: bool = False

    @property
    def fits_tile(self) -> bool:
        """Whether each sentence fits into a tile of the attention kernel."""
        return max(self.query.longest, self.key.longest) <= LONG
