"""Weights in half precision: all of a model's cast at once, those that are used together side by side."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn


class Halves:
    """Copies of the weights and biases of linear layers in one block of memory, in the order of the layers.

    To cast each where it is used would start hundreds of small kernels, and joining query, key and value as many again.
    """

    def __init__(self, layers: Iterable[nn.Module], dtype: torch.dtype) -> None:
        linear = [layer for layer in layers if isinstance(layer, nn.Linear) and layer.bias is not None]
        whole = [layer.weight.detach() for layer in linear] + [layer.bias.detach() for layer in linear]
        sizes = [weight.numel() for weight in whole]
        self.block = whole[0].new_empty(sum(sizes), dtype=dtype)
        parts = torch.split(self.block, sizes)
        torch._foreach_copy_([part.view_as(weight) for part, weight in zip(parts, whole, strict=True)], whole)
        self.start: dict[int, int] = {}
        end = 0
        for weight, size in zip(whole, sizes, strict=True):
            self.start[weight.data_ptr()] = end
            end += size

    def of(self, *weights: Tensor) -> Tensor:
        """The rows of these weights below one another; their layers must follow one another."""
        starts = [self.start[weight.data_ptr()] for weight in weights]
        ends = [start + weight.numel() for start, weight in zip(starts, weights, strict=True)]
        assert starts[1:] == ends[:-1], "the layers of these weights are not neighbours"
        return self.block[starts[0] : ends[-1]].view(-1, *weights[0].shape[1:])
