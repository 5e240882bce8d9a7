"""The product of each sentence with the matrix of its language, x_b W[lang_b], in two ways.

`gathered` copies a matrix for each sentence, as Eqs. 6-7 of the paper do. `grouped` needs no copies: the sentences are
put in the order of their languages, and each language has one product.

Shape letters: B sentences, T tokens, N = B·T, n of one language, D model width, L languages.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor


@dataclass(frozen=True)
class Choice:
    """Which of L matrices each sentence takes, and the sentences grouped by that."""

    index_B: Tensor
    """The number of each sentence's matrix."""
    order_B: Tensor | None
    """The rows in the order of their numbers; nothing where they are in order already."""
    ends_L: Tensor
    """How many of the ordered rows belong to each number and those below it."""

    @classmethod
    def of(cls, index_B: Tensor, num_languages: int) -> Choice:
        """Group sentences that come in any order."""
        sorted_B, order_B = index_B.sort(stable=True)
        numbers_L = torch.arange(num_languages, device=index_B.device)
        return cls(index_B, order_B, torch.searchsorted(sorted_B, numbers_L, right=True))

    def select(self, rows_B: Tensor) -> Choice:
        """The choice of some sentences, in the given order and number."""
        return Choice.of(self.index_B[rows_B], len(self.ends_L))

    def ordered(self) -> Choice:
        """The choice of the same sentences put in order."""
        return self if self.order_B is None else Choice(self.index_B[self.order_B], None, self.ends_L)


Product = Callable[[Tensor, Tensor, Choice], Tensor]
"""Takes x_BTD, matrix_LDD and a choice."""


def gathered(x_BTD: Tensor, matrix_LDD: Tensor, choice: Choice) -> Tensor:
    """One batched product with a copy of the matrix for each sentence."""
    return x_BTD @ matrix_LDD[choice.index_B]


def grouped(x_BTD: Tensor, matrix_LDD: Tensor, choice: Choice) -> Tensor:
    """One grouped product; sentences that are not in order are moved there and back."""
    if choice.order_B is not None:
        back_B = choice.order_B.argsort()
        return grouped(x_BTD[choice.order_B], matrix_LDD, choice.ordered())[back_B]
    dtype = _product_dtype(x_BTD)
    x_ND, matrix_LDD = x_BTD.flatten(0, 1).to(dtype), matrix_LDD.to(dtype)
    ends_L = choice.ends_L * x_BTD.shape[1]
    if x_BTD.is_cuda and dtype in (torch.bfloat16, torch.float16):
        return _on_tensor_cores(x_ND, matrix_LDD, ends_L).view_as(x_BTD)
    if torch.compiler.is_compiling():  # a graph cannot depend on where the languages end
        return gathered(x_BTD, matrix_LDD, choice)
    return _segments(x_ND, matrix_LDD, ends_L).view_as(x_BTD)


def _on_tensor_cores(x_ND: Tensor, matrix_LDD: Tensor, ends_L: Tensor) -> Tensor:
    """All languages in one kernel, which reads where they end on the device."""
    y_ND: Tensor = F.grouped_mm(x_ND, matrix_LDD, offs=ends_L.to(torch.int32))
    return y_ND


def _segments(x_ND: Tensor, matrix_LDD: Tensor, ends_L: Tensor) -> Tensor:
    """A product for each language that has sentences."""
    sizes = ends_L.diff(prepend=ends_L.new_zeros(1)).tolist()
    # unbind and split, not indices: each index would have a gradient of the size of the whole table
    parts = zip(torch.split(x_ND, sizes), matrix_LDD.unbind(), strict=True)
    return torch.cat([x_nD @ matrix_DD for x_nD, matrix_DD in parts if len(x_nD)])


def _product_dtype(x: Tensor) -> torch.dtype:
    """What a product of x is computed in here; grouped products are not among those that autocast knows."""
    kind = x.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else x.dtype
