"""Half-precision copies of the weights: cast together, and stored so that weights used together are adjacent."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn


class HalfPrecisionWeights:
    """Copies of the weights and biases of linear layers in one block of memory, in the order of the layers.

    Casting each weight where it is used would launch hundreds of small kernels, and concatenating query, key and value
    would launch as many again.
    """

    def __init__(self, layers: Iterable[nn.Module], dtype: torch.dtype) -> None:
        linear = [layer for layer in layers if isinstance(layer, nn.Linear) and layer.bias is not None]
        weights = [layer.weight.detach() for layer in linear] + [layer.bias.detach() for layer in linear]
        sizes = [weight.numel() for weight in weights]
        self.block = weights[0].new_empty(sum(sizes), dtype=dtype)
        parts = torch.split(self.block, sizes)
        torch._foreach_copy_([part.view_as(weight) for part, weight in zip(parts, weights, strict=True)], weights)
        self.start: dict[int, int] = {}
        end = 0
        for weight, size in zip(weights, sizes, strict=True):
            self.start[weight.data_ptr()] = end
            end += size

    def concatenated(self, *weights: Tensor) -> Tensor:
        """Return these weights concatenated along the rows, without a copy; their layers must be adjacent."""
        starts = [self.start[weight.data_ptr()] for weight in weights]
        ends = [start + weight.numel() for start, weight in zip(starts, weights, strict=True)]
        assert starts[1:] == ends[:-1], "the layers of these weights are not adjacent"
        return self.block[starts[0] : ends[-1]].view(-1, *weights[0].shape[1:])
