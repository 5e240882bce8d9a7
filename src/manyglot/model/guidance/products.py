"""The product of each sentence with the matrix of its language, x_b W[lang_b], in two ways.

`gathered` copies a matrix for each sentence, as Eqs. 6-7 of the paper do. `grouped` needs no copies: the sentences are
put in the order of their languages, and each language has one product. `times` takes the faster one on the device.

Shape letters: B sentences, T tokens, N = B·T, n of one language, D model width, E width of the product, L languages.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from manyglot.model.kernels import have_kernels

PIECE = 2048
"""Tokens whose part of a matrix's gradient is computed at once."""


@dataclass(frozen=True)
class Choice:
    """Which of L matrices each sentence takes, and the sentences grouped by that."""

    index_B: Tensor
    """The number of each sentence's matrix."""
    order_B: Tensor | None
    """The rows in the order of their numbers; nothing where they are in order already."""
    ends_L: Tensor
    """How many of the ordered rows belong to each number and those below it."""
    _tables: dict[tuple[int, tuple[int, ...]], SharedTable] = field(default_factory=dict, repr=False, compare=False)
    _pieces: dict[int, Pieces] = field(default_factory=dict, repr=False, compare=False)
    _ordered: list[tuple[Choice, Tensor]] = field(default_factory=list, repr=False, compare=False)

    @classmethod
    def of(cls, index_B: Tensor, num_languages: int, *, in_order: bool = False) -> Choice:
        """Group sentences that come in any order, or in that of their numbers."""
        sorted_B, order_B = (index_B, None) if in_order else index_B.sort(stable=True)
        numbers_L = torch.arange(num_languages, dtype=index_B.dtype, device=index_B.device)
        return cls(index_B, order_B, torch.searchsorted(sorted_B, numbers_L, right=True))

    def of_tokens(self, sentence_N: Tensor) -> Choice:
        """The choice of tokens that belong to these sentences, one sentence after the other."""
        return Choice.of(self.index_B[sentence_N], len(self.ends_L), in_order=self.order_B is None)

    def select(self, rows_B: Tensor) -> Choice:
        """The choice of some sentences, in the given order and number."""
        return Choice.of(self.index_B[rows_B], len(self.ends_L))

    def ordered(self) -> Choice:
        """The choice of the same sentences put in order; remembered, with all that it remembers itself."""
        return self if self.order_B is None else self._there_and_back(self.order_B)[0]

    def _there_and_back(self, order_B: Tensor) -> tuple[Choice, Tensor]:
        """The choice in order, and where each row is there."""
        if self._ordered and not torch.compiler.is_compiling():
            return self._ordered[0]
        place_B = torch.arange(len(order_B), dtype=order_B.dtype, device=order_B.device)
        back_B = torch.empty_like(order_B).scatter_(0, order_B, place_B)  # to sort would take longer
        made = Choice(self.index_B[order_B], None, self.ends_L), back_B
        if not torch.compiler.is_compiling():  # a compiler sees by itself that it is done once
            self._ordered.append(made)
        return made

    def pieces(self, most: int) -> Pieces:
        """Ordered rows cut into pieces of one number, of at most so many rows; remembered, for they serve many layers.

        A piece ends where its number does, and some are empty: how many there are depends on the number of rows alone.
        """
        if most not in self._pieces:
            ends_L, num_rows = self.ends_L.to(torch.int32), len(self.index_B)
            cuts = torch.arange(0, num_rows, most, dtype=torch.int32, device=ends_L.device)[1:]
            filling = ends_L.new_full((-(len(ends_L) + len(cuts)) % 8,), num_rows)  # for rows of whole 16 bytes
            ends_P = torch.cat([ends_L, cuts, filling]).sort().values
            of_P = torch.searchsorted(ends_L, torch.cat([ends_P.new_zeros(1), ends_P[:-1]]), right=True)
            number_L1 = torch.arange(len(ends_L), device=ends_L.device)[:, None]
            self._pieces[most] = Pieces(ends_P, number_L1 == of_P)
        return self._pieces[most]

    def shared(self, table: Tensor) -> SharedTable:
        """The table with an accumulator for its gradient, the same for all uses; a transposed table has its own."""
        key = table.data_ptr(), table.stride()
        if key not in self._tables:
            accumulator = GradientAccumulator()
            collected: Tensor = _CollectGradient.apply(table, accumulator)  # type: ignore[no-untyped-call]
            self._tables[key] = SharedTable(collected, accumulator)
        return self._tables[key]

    def put_in_order(self, x: Tensor) -> Tensor:
        """Something that has a row for each sentence, in order."""
        return x if self.order_B is None else _moved(x, self.order_B, self._there_and_back(self.order_B)[1])

    def put_back(self, x: Tensor) -> Tensor:
        """Undo `put_in_order`."""
        return x if self.order_B is None else _moved(x, self._there_and_back(self.order_B)[1], self.order_B)


class Pieces(NamedTuple):
    """Rows that follow one another and take the same matrix."""

    ends_P: Tensor
    """Where each piece ends, and the next one begins."""
    belongs_LP: Tensor
    """Whose each is."""


class ByLanguage(NamedTuple):
    """A matrix for each row, by its choice."""

    matrix_LED: Tensor
    choice: Choice


class _Moved(torch.autograd.Function):
    """Rows in another order.

    The gradient moves back likewise. That of an index would be added up element by element, since it cannot know that
    no row is taken twice.
    """

    @staticmethod
    def forward(x: Tensor, order_B: Tensor, back_B: Tensor) -> Tensor:
        return x[order_B]

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs[1:])

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        order_B, back_B = ctx.saved_tensors
        return _moved(gradient, back_B, order_B), None, None


def _moved(x: Tensor, order_B: Tensor, back_B: Tensor) -> Tensor:
    moved: Tensor = _Moved.apply(x, order_B, back_B)  # type: ignore[no-untyped-call]
    return moved


Product = Callable[[Tensor, Tensor, Choice], Tensor]
"""Takes x_BTD, matrix_LDE and a choice; returns y_BTE."""


def times(x_BTD: Tensor, matrix_LDE: Tensor, choice: Choice) -> Tensor:
    """Grouped on a CPU, and on a GPU where one kernel does all languages; otherwise gathered."""
    fast = grouped if not x_BTD.is_cuda or _one_kernel(x_BTD, matrix_LDE) else gathered
    return fast(x_BTD, matrix_LDE, choice)


def gathered(x_BTD: Tensor, matrix_LDE: Tensor, choice: Choice) -> Tensor:
    """One batched product with a copy of the matrix for each sentence."""
    return x_BTD @ matrix_LDE[choice.index_B]


def grouped(x_BTD: Tensor, matrix_LDE: Tensor, choice: Choice) -> Tensor:
    """One product for each language; sentences that are not in order are moved there and back."""
    if choice.order_B is not None:
        return choice.put_back(grouped(choice.put_in_order(x_BTD), matrix_LDE, choice.ordered()))
    one_kernel = _one_kernel(x_BTD, matrix_LDE)
    if torch.compiler.is_compiling() and not one_kernel:  # a graph cannot depend on where the languages end
        return gathered(x_BTD, matrix_LDE, choice)
    dtype = product_dtype(x_BTD)
    x_ND, matrix_LDE = x_BTD.flatten(0, 1).to(dtype), matrix_LDE.to(dtype)
    ends_L = choice.ends_L * x_BTD.shape[1]
    if not one_kernel:
        y_NE = _segments(x_ND, matrix_LDE, ends_L)
    elif x_BTD.shape[1] > 1:
        y_NE = F.grouped_mm(x_ND, matrix_LDE, offs=ends_L.to(torch.int32))
    else:  # tokens of packed sentences, as they are trained on
        y_NE = _on_tensor_cores(x_ND, matrix_LDE, choice)
    return y_NE.view(*x_BTD.shape[:2], y_NE.shape[1])


def _one_kernel(x_BTD: Tensor, matrix_LDE: Tensor) -> bool:
    """Whether a single kernel can do all languages: on a GPU, in half precision, with rows of whole 16 bytes."""
    half = product_dtype(x_BTD) in (torch.bfloat16, torch.float16)
    return x_BTD.is_cuda and half and all(width % 8 == 0 for width in matrix_LDE.shape[1:])


def linear_by_language(x_BTD: Tensor, weight_ED: Tensor, half_ED: Tensor, added: ByLanguage) -> Tensor | None:
    """x (W + W_l)^T of packed tokens, where one kernel can do all languages: one product instead of two and their sum.

    The copy of W in half precision is given too.
    """
    matrix_LED, choice = added
    if not _one_kernel(x_BTD, matrix_LED):
        return None
    if choice.order_B is not None:
        in_order = ByLanguage(matrix_LED, choice.ordered())
        y_BTE = linear_by_language(choice.put_in_order(x_BTD), weight_ED, half_ED, in_order)
        return None if y_BTE is None else choice.put_back(y_BTE)
    x_ND, ends = x_BTD.flatten(0, 1), (choice.ends_L.to(torch.int32), *choice.pieces(PIECE))
    matrix_LED, accumulator = choice.shared(matrix_LED)
    tables = half_ED, weight_ED, matrix_LED
    y_NE: Tensor = LinearByLanguage.apply(x_ND, *tables, *ends, accumulator)  # type: ignore[no-untyped-call]
    return y_NE.view(*x_BTD.shape[:2], y_NE.shape[1])


class LinearByLanguage(torch.autograd.Function):
    """x (W + W_l)^T, all languages in one kernel; the matrices are added before."""

    @staticmethod
    def forward(
        ctx: Any,
        x_ND: Tensor,
        half_ED: Tensor,
        weight_ED: Tensor,
        matrix_LED: Tensor,
        ends_L: Tensor,
        ends_P: Tensor,
        belongs_LP: Tensor,
        accumulator: GradientAccumulator,
    ) -> Tensor:
        """Keep the sums."""
        both_LED, ctx.accumulator = _added_to_each(matrix_LED, half_ED), accumulator
        ctx.save_for_backward(x_ND, both_LED, ends_L, ends_P, belongs_LP)
        return _product(x_ND, both_LED.mT, ends_L)

    @staticmethod
    def backward(ctx: Any, gradient_NE: Tensor) -> Any:
        """The gradient of W is that of all languages together."""
        x_ND, both_LED, ends_L, *pieces = ctx.saved_tensors
        gradient_NE = gradient_NE.contiguous()
        dx_ND = _product(gradient_NE, both_LED, ends_L)
        parts_PED, belongs_LP = _parts(gradient_NE, x_ND, *pieces)
        ctx.accumulator.add(parts_PED, belongs_LP)
        return dx_ND, None, parts_PED.sum(dim=0, dtype=torch.float32), None, None, None, None, None


def _on_tensor_cores(x_ND: Tensor, matrix_LDE: Tensor, choice: Choice) -> Tensor:
    """All languages in one kernel, which reads where they end on the device, with a gradient made for many tokens."""
    ends = choice.ends_L.to(torch.int32), *choice.pieces(PIECE)
    matrix_LDE, accumulator = choice.shared(matrix_LDE)
    y_NE: Tensor = _OneKernel.apply(x_ND, matrix_LDE, *ends, accumulator)  # type: ignore[no-untyped-call]
    return y_NE


class _OneKernel(torch.autograd.Function):
    """`grouped_mm`, with a gradient that does not wait for the language that has most of the tokens.

    The gradient of a matrix is one long sum over the tokens of its language. Where one language has half of them, its
    sum would take as long as all the others together; so they are cut into pieces, whose sums are added up.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x_ND: Tensor,
        matrix_LDE: Tensor,
        ends_L: Tensor,
        ends_P: Tensor,
        belongs_LP: Tensor,
        accumulator: GradientAccumulator,
    ) -> Tensor:
        ctx.save_for_backward(x_ND, matrix_LDE, ends_L, ends_P, belongs_LP)
        ctx.accumulator = accumulator
        return _product(x_ND, matrix_LDE, ends_L)

    @staticmethod
    def backward(ctx: Any, gradient_NE: Tensor) -> Any:
        x_ND, matrix_LDE, ends_L, *pieces = ctx.saved_tensors
        gradient_NE = gradient_NE.contiguous()
        dx_ND = _product(gradient_NE, matrix_LDE.mT, ends_L)
        if _is_transposed(matrix_LDE):  # its gradient is transposed too
            ctx.accumulator.add(*_parts(gradient_NE, x_ND, *pieces))
        else:
            ctx.accumulator.add(*_parts(x_ND, gradient_NE, *pieces))
        return dx_ND, None, None, None, None, None


def _product(x_ND: Tensor, matrix_LDE: Tensor, ends_L: Tensor) -> Tensor:
    """Of many tokens: by a kernel of our own, which is faster than the library's, where it is there."""
    if x_ND.is_cuda and have_kernels():
        from manyglot.model.kernels.grouped import grouped_product

        return grouped_product(x_ND, matrix_LDE, ends_L)
    y_NE: Tensor = F.grouped_mm(x_ND, matrix_LDE, offs=ends_L)
    return y_NE


def _added_to_each(matrix_LED: Tensor, weight_ED: Tensor) -> Tensor:
    if matrix_LED.is_cuda and have_kernels():
        from manyglot.model.kernels.grouped import added_to_each

        return added_to_each(matrix_LED, weight_ED)
    return matrix_LED + weight_ED


def _parts(x_ND: Tensor, y_NE: Tensor, ends_P: Tensor, belongs_LP: Tensor) -> tuple[Tensor, Tensor]:
    """x^T y over the tokens of each piece, and to which language each piece belongs."""
    parts_PDE: Tensor = F.grouped_mm(x_ND.T, y_NE, offs=ends_P)
    return parts_PDE, belongs_LP.to(x_ND.dtype)


class GradientAccumulator:
    """Sums the gradients of a table over all its uses, by language and in place.

    Otherwise each use would write a gradient of the size of the table, and autograd would read them all to add them.
    """

    def __init__(self) -> None:
        self.sum_LDE: Tensor | None = None

    def add(self, parts_PDE: Tensor, belongs_LP: Tensor) -> None:
        """Add the gradient of one use, given in parts and the language of each part."""
        parts_PF = parts_PDE.flatten(1)
        if self.sum_LDE is None:
            self.sum_LDE = (belongs_LP @ parts_PF).view(-1, *parts_PDE.shape[1:])
        else:
            self.sum_LDE.view(len(self.sum_LDE), -1).addmm_(belongs_LP, parts_PF)

    def take(self) -> Tensor | None:
        """The sum of the gradients since the last call."""
        sum_LDE, self.sum_LDE = self.sum_LDE, None
        return sum_LDE


class SharedTable(NamedTuple):
    """A table that is used many times, and what accumulates its gradient."""

    table: Tensor
    accumulator: GradientAccumulator


class _CollectGradient(torch.autograd.Function):
    """The identity, between a table and its uses.

    Autograd runs a node after all its uses that take part in the loss, whichever these are. So the backward pass here
    finds the complete sum in the accumulator, and no gradient can be lost.
    """

    @staticmethod
    def forward(ctx: Any, table: Tensor, accumulator: GradientAccumulator) -> Tensor:
        ctx.accumulator, ctx.transposed = accumulator, _is_transposed(table)
        ctx.set_materialize_grads(False)
        return table.view_as(table)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor | None) -> tuple[Tensor | None, None]:
        assert gradient is None, "all uses add to the accumulator"
        total = ctx.accumulator.take()
        return total.mT if total is not None and ctx.transposed else total, None


def _is_transposed(table: Tensor) -> bool:
    return table.stride(-1) != 1


def _segments(x_ND: Tensor, matrix_LDE: Tensor, ends_L: Tensor) -> Tensor:
    """A product for each language that has sentences."""
    sizes = ends_L.diff(prepend=ends_L.new_zeros(1)).tolist()
    # unbind and split, not indices: each index would have a gradient of the size of the whole table
    parts = zip(torch.split(x_ND, sizes), matrix_LDE.unbind(), strict=True)
    products = [x_nD @ matrix_DE for x_nD, matrix_DE in parts if len(x_nD)]
    return torch.cat(products) if products else x_ND @ matrix_LDE[0]


def product_dtype(x: Tensor) -> torch.dtype:
    """What a product of x is computed in here; grouped products are not among those that autocast knows."""
    kind = x.device.type
    cast = torch.is_autocast_enabled(kind) and x.dtype != torch.float64  # which autocast leaves alone
    return torch.get_autocast_dtype(kind) if cast else x.dtype
