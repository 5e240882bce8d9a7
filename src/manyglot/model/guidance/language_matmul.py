"""Products of each sentence with the matrix of its language, x_b W[lang_b], computed in one of two ways.

`gathered_matmul` copies one matrix per sentence, as Eqs. 6-7 of the paper do. `grouped_matmul` copies none: it sorts
the sentences by language and computes one product per language. `language_matmul` picks the faster one for the device.

Shape letters: B sentences, T tokens, N = B·T, n tokens of one language, D and E widths of the input and the output, L
languages, R rank, P chunks of tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

import manyglot.model.kernels as kernels

GRADIENT_CHUNK_TOKENS = 2048
"""Maximum number of tokens over which one partial gradient of a matrix is summed."""
KERNEL_WIDTH_MULTIPLE = 8
"""Rows of this many values in half precision are multiples of 16 bytes, as grouped kernels require."""


@dataclass(frozen=True)
class LanguageGroups:
    """The language of each row, and the rows grouped by language. A row is a sentence or a token."""

    lang_B: Tensor
    """The language id of each row."""
    sort_order_B: Tensor | None
    """The permutation that sorts the rows by language; None if they are sorted already."""
    group_end_L: Tensor
    """The exclusive end of each language's rows once they are sorted."""
    _shared_tables: dict[tuple[int, tuple[int, ...]], SharedTable] = field(
        default_factory=dict, repr=False, compare=False
    )
    _chunks: dict[int, LanguageChunks] = field(default_factory=dict, repr=False, compare=False)
    _sorted_cache: list[tuple[LanguageGroups, Tensor]] = field(default_factory=list, repr=False, compare=False)
    _spans: list[LanguageSpan] = field(default_factory=list, repr=False, compare=False)

    @classmethod
    def from_languages(cls, lang_B: Tensor, num_languages: int, *, is_sorted: bool = False) -> LanguageGroups:
        """Group rows by language. Pass `is_sorted` if they are sorted already; this is not checked."""
        sorted_B, sort_order_B = (lang_B, None) if is_sorted else lang_B.sort(stable=True)
        language_L = torch.arange(num_languages, dtype=lang_B.dtype, device=lang_B.device)
        return cls(lang_B, sort_order_B, torch.searchsorted(sorted_B, language_L, right=True))

    def per_token(self, sentence_N: Tensor) -> LanguageGroups:
        """Expand sentences to tokens; `sentence_N` is the sentence of each token, in ascending order."""
        return LanguageGroups.from_languages(
            self.lang_B[sentence_N], len(self.group_end_L), is_sorted=self.sort_order_B is None
        )

    def select(self, rows_B: Tensor) -> LanguageGroups:
        """Select rows by index; a row may be repeated."""
        lang_B = self.lang_B[rows_B]
        is_sorted = lang_B.is_cpu and bool((lang_B[1:] >= lang_B[:-1]).all())  # a GPU would have to wait
        return LanguageGroups.from_languages(lang_B, len(self.group_end_L), is_sorted=is_sorted)

    def groups_of_sorted_rows(self) -> LanguageGroups:
        """Return the groups of the sorted rows. The result is cached together with its own caches."""
        return self if self.sort_order_B is None else self._sorted_groups_and_inverse(self.sort_order_B)[0]

    def _sorted_groups_and_inverse(self, sort_order_B: Tensor) -> tuple[LanguageGroups, Tensor]:
        """Return the groups of the sorted rows, and the sorted position of each row."""
        if self._sorted_cache and not torch.compiler.is_compiling():
            return self._sorted_cache[0]
        row_B = torch.arange(len(sort_order_B), dtype=sort_order_B.dtype, device=sort_order_B.device)
        inverse_order_B = torch.empty_like(sort_order_B).scatter_(0, sort_order_B, row_B)  # faster than argsort
        result = LanguageGroups(self.lang_B[sort_order_B], None, self.group_end_L), inverse_order_B
        if not torch.compiler.is_compiling():  # the compiler removes repeated work itself
            self._sorted_cache.append(result)
        return result

    def spans(self) -> list[LanguageSpan]:
        """Return the languages that have rows, with their rows in sorted order. The result is cached."""
        if not self._spans:
            ends = self.group_end_L.tolist()
            spans = zip(range(len(ends)), [0, *ends], ends, strict=False)
            self._spans.extend(LanguageSpan(*span) for span in spans if span[1] < span[2])
        return self._spans

    def chunks(self, max_rows: int) -> LanguageChunks:
        """Split the sorted rows into chunks of one language and at most `max_rows` rows. The result is cached.

        Some chunks are empty, so that the number of chunks depends on the number of rows alone.
        """
        if max_rows not in self._chunks:
            group_end_L, num_rows = self.group_end_L.to(torch.int32), len(self.lang_B)
            chunk_starts = torch.arange(0, num_rows, max_rows, dtype=torch.int32, device=group_end_L.device)[1:]
            num_padding = -(len(group_end_L) + len(chunk_starts)) % 8  # rows of membership_LP are multiples of 16 bytes
            padding = group_end_L.new_full((num_padding,), num_rows)
            chunk_end_P = torch.cat([group_end_L, chunk_starts, padding]).sort().values
            chunk_start_P = torch.cat([chunk_end_P.new_zeros(1), chunk_end_P[:-1]])
            language_P = torch.searchsorted(group_end_L, chunk_start_P, right=True)
            language_L1 = torch.arange(len(group_end_L), device=group_end_L.device)[:, None]
            self._chunks[max_rows] = LanguageChunks(chunk_end_P, language_L1 == language_P)
        return self._chunks[max_rows]

    def shared_table(self, table: Tensor) -> SharedTable:
        """Return the table with a gradient accumulator that all its uses share; a transposed table has its own."""
        key = table.data_ptr(), table.stride()
        if key not in self._shared_tables:
            accumulator = GradientAccumulator()
            table_with_hook: Tensor = _CollectGradient.apply(table, accumulator)  # type: ignore[no-untyped-call]
            self._shared_tables[key] = SharedTable(table_with_hook, accumulator)
        return self._shared_tables[key]

    def sort_rows(self, x: Tensor) -> Tensor:
        """Sort the rows of x by language."""
        if self.sort_order_B is None:
            return x
        return _permute_rows(x, self.sort_order_B, self._sorted_groups_and_inverse(self.sort_order_B)[1])

    def unsort_rows(self, x: Tensor) -> Tensor:
        """Undo `sort_rows`."""
        if self.sort_order_B is None:
            return x
        return _permute_rows(x, self._sorted_groups_and_inverse(self.sort_order_B)[1], self.sort_order_B)


class LanguageSpan(NamedTuple):
    """The rows of one language among the sorted rows."""

    language: int
    start: int
    end: int


class LanguageChunks(NamedTuple):
    """Chunks of consecutive rows in one language."""

    chunk_end_P: Tensor
    """The exclusive end of each chunk."""
    membership_LP: Tensor
    """Whether a chunk belongs to a language."""


class LanguageMatrices(NamedTuple):
    """One matrix per language, and the groups that select the matrix of each row."""

    matrix_LED: Tensor
    groups: LanguageGroups


class _PermuteRows(torch.autograd.Function):
    """Permutes rows, and permutes the gradient back.

    The gradient of plain indexing is slower: it must accumulate, because it cannot know that no row is repeated.
    """

    @staticmethod
    def forward(x: Tensor, sort_order_B: Tensor, inverse_order_B: Tensor) -> Tensor:
        return x[sort_order_B]

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs[1:])

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        sort_order_B, inverse_order_B = ctx.saved_tensors
        return _permute_rows(gradient, inverse_order_B, sort_order_B), None, None


def _permute_rows(x: Tensor, sort_order_B: Tensor, inverse_order_B: Tensor) -> Tensor:
    permuted: Tensor = _PermuteRows.apply(x, sort_order_B, inverse_order_B)  # type: ignore[no-untyped-call]
    return permuted


LanguageMatmul = Callable[[Tensor, Tensor, LanguageGroups], Tensor]
"""Takes x_BTD, matrix_LDE and the groups of the sentences; returns y_BTE."""


def language_matmul(x_BTD: Tensor, matrix_LDE: Tensor, groups: LanguageGroups) -> Tensor:
    """Multiply each sentence by the matrix of its language, in the faster of the two ways.

    That is `gathered_matmul` on a GPU where no single kernel can compute all languages, else `grouped_matmul`.
    """
    matmul = grouped_matmul if not x_BTD.is_cuda or _supports_grouped_kernel(x_BTD, matrix_LDE) else gathered_matmul
    return matmul(x_BTD, matrix_LDE, groups)


def gathered_matmul(x_BTD: Tensor, matrix_LDE: Tensor, groups: LanguageGroups) -> Tensor:
    """Multiply each sentence by its own copy of the matrix, in one batched product."""
    return x_BTD @ matrix_LDE[groups.lang_B]


def grouped_matmul(x_BTD: Tensor, matrix_LDE: Tensor, groups: LanguageGroups) -> Tensor:
    """Compute one product per language; unsorted sentences are sorted first, and the result is unsorted."""
    if x_BTD.is_cpu and not torch.is_grad_enabled() and not torch.compiler.is_compiling():
        spans = groups.spans()
        if len(spans) == 1:
            dtype = matmul_dtype(x_BTD)
            return x_BTD.to(dtype) @ matrix_LDE[spans[0].language].to(dtype)
    if groups.sort_order_B is not None:
        return groups.unsort_rows(grouped_matmul(groups.sort_rows(x_BTD), matrix_LDE, groups.groups_of_sorted_rows()))
    use_kernel = _supports_grouped_kernel(x_BTD, matrix_LDE)
    if torch.compiler.is_compiling() and not use_kernel:  # a compiled graph cannot depend on group sizes
        return gathered_matmul(x_BTD, matrix_LDE, groups)
    dtype = matmul_dtype(x_BTD)
    x_ND, matrix_LDE = x_BTD.flatten(0, 1).to(dtype), matrix_LDE.to(dtype)
    group_end_L = groups.group_end_L * x_BTD.shape[1]
    if not use_kernel and not torch.is_grad_enabled():
        y_NE = _matmul_per_span(x_ND, matrix_LDE, groups.spans(), x_BTD.shape[1])
    elif not use_kernel:
        y_NE = _matmul_per_language(x_ND, matrix_LDE, group_end_L)
    elif x_BTD.shape[1] > 1:
        y_NE = F.grouped_mm(x_ND, matrix_LDE, offs=group_end_L.to(torch.int32))
    else:  # rows are the tokens of packed sentences, as in training
        y_NE = _grouped_kernel_matmul(x_ND, matrix_LDE, groups)
    return y_NE.view(*x_BTD.shape[:2], y_NE.shape[1])


def _supports_grouped_kernel(x_BTD: Tensor, matrix_LDE: Tensor) -> bool:
    """Whether one kernel can compute all languages: on a GPU, in half precision, with widths divisible by 8."""
    is_aligned = all(width % KERNEL_WIDTH_MULTIPLE == 0 for width in matrix_LDE.shape[1:])
    return _has_grouped_kernel(x_BTD.device, matmul_dtype(x_BTD)) and is_aligned


def _has_grouped_kernel(device: torch.device, dtype: torch.dtype) -> bool:
    return device.type == "cuda" and dtype in kernels.HALF_PRECISION_DTYPES


def pad_rank(factor_LDR: Tensor) -> Tensor:
    """Pad the rank of a factor with zeros to the multiple that a grouped kernel requires, if there is such a kernel.

    Otherwise a product with a rank that is no multiple of 8 would copy the factor of each row (`gathered_matmul`).
    """
    num_zeros = -factor_LDR.shape[2] % KERNEL_WIDTH_MULTIPLE
    needs_padding = num_zeros and _has_grouped_kernel(factor_LDR.device, factor_LDR.dtype)
    return F.pad(factor_LDR, (0, num_zeros)) if needs_padding else factor_LDR


def try_fused_language_linear(
    x_BTD: Tensor, weight_ED: Tensor, half_ED: Tensor, matrices: LanguageMatrices
) -> Tensor | None:
    """Return x (W + W_l)^T of packed tokens as one product, or None if no single kernel can compute all languages.

    `half_ED` is a copy of W in half precision.
    """
    matrix_LED, groups = matrices
    if not _supports_grouped_kernel(x_BTD, matrix_LED):
        return None
    if groups.sort_order_B is not None:
        sorted_matrices = LanguageMatrices(matrix_LED, groups.groups_of_sorted_rows())
        y_BTE = try_fused_language_linear(groups.sort_rows(x_BTD), weight_ED, half_ED, sorted_matrices)
        return None if y_BTE is None else groups.unsort_rows(y_BTE)
    x_ND, group_ends = x_BTD.flatten(0, 1), (groups.group_end_L.to(torch.int32), *groups.chunks(GRADIENT_CHUNK_TOKENS))
    matrix_LED, accumulator = groups.shared_table(matrix_LED)
    weights = half_ED, weight_ED, matrix_LED
    y_NE: Tensor = FusedSharedAndLanguageLinear.apply(x_ND, *weights, *group_ends, accumulator)  # type: ignore[no-untyped-call]
    return y_NE.view(*x_BTD.shape[:2], y_NE.shape[1])


class FusedSharedAndLanguageLinear(torch.autograd.Function):
    """x (W + W_l)^T of all languages in one kernel; the matrices are added first."""

    @staticmethod
    def forward(
        ctx: Any,
        x_ND: Tensor,
        half_ED: Tensor,
        weight_ED: Tensor,
        matrix_LED: Tensor,
        group_end_L: Tensor,
        chunk_end_P: Tensor,
        membership_LP: Tensor,
        accumulator: GradientAccumulator,
    ) -> Tensor:
        """Save the summed matrices for the backward pass."""
        sum_LED, ctx.accumulator = _add_to_each_matrix(matrix_LED, half_ED), accumulator
        ctx.save_for_backward(x_ND, sum_LED, group_end_L, chunk_end_P, membership_LP)
        return _grouped_matmul_forward(x_ND, sum_LED.mT, group_end_L)

    @staticmethod
    def backward(ctx: Any, gradient_NE: Tensor) -> Any:
        """The gradient of W is the sum over all languages."""
        x_ND, sum_LED, group_end_L, *chunks = ctx.saved_tensors
        gradient_NE = gradient_NE.contiguous()
        dx_ND = _grouped_matmul_forward(gradient_NE, sum_LED, group_end_L)
        parts_PED, membership_LP = _chunk_gradients(gradient_NE, x_ND, *chunks)
        ctx.accumulator.add(parts_PED, membership_LP)
        return dx_ND, None, parts_PED.sum(dim=0, dtype=torch.float32), None, None, None, None, None


def _grouped_kernel_matmul(x_ND: Tensor, matrix_LDE: Tensor, groups: LanguageGroups) -> Tensor:
    """Compute all languages in one kernel, which reads the group ends on the device."""
    group_ends = groups.group_end_L.to(torch.int32), *groups.chunks(GRADIENT_CHUNK_TOKENS)
    matrix_LDE, accumulator = groups.shared_table(matrix_LDE)
    y_NE: Tensor = _GroupedMatmul.apply(x_ND, matrix_LDE, *group_ends, accumulator)  # type: ignore[no-untyped-call]
    return y_NE


class _GroupedMatmul(torch.autograd.Function):
    """`grouped_mm` with a backward pass that balances languages of different sizes.

    The gradient of a matrix is a sum over the tokens of its language. If one language has half of the tokens, its sum
    would take as long as all the others together. So each sum is split into chunks, whose partial sums are then added.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x_ND: Tensor,
        matrix_LDE: Tensor,
        group_end_L: Tensor,
        chunk_end_P: Tensor,
        membership_LP: Tensor,
        accumulator: GradientAccumulator,
    ) -> Tensor:
        ctx.save_for_backward(x_ND, matrix_LDE, group_end_L, chunk_end_P, membership_LP)
        ctx.accumulator = accumulator
        return _grouped_matmul_forward(x_ND, matrix_LDE, group_end_L)

    @staticmethod
    def backward(ctx: Any, gradient_NE: Tensor) -> Any:
        x_ND, matrix_LDE, group_end_L, *chunks = ctx.saved_tensors
        gradient_NE = gradient_NE.contiguous()
        dx_ND = _grouped_matmul_forward(gradient_NE, matrix_LDE.mT, group_end_L)
        if _is_transposed(matrix_LDE):  # its gradient is transposed too
            ctx.accumulator.add(*_chunk_gradients(gradient_NE, x_ND, *chunks))
        else:
            ctx.accumulator.add(*_chunk_gradients(x_ND, gradient_NE, *chunks))
        return dx_ND, None, None, None, None, None


def _grouped_matmul_forward(x_ND: Tensor, matrix_LDE: Tensor, group_end_L: Tensor) -> Tensor:
    """Use our Triton kernel if it is available; for many tokens it is faster than PyTorch's."""
    if kernels.runs_kernels(x_ND.device):
        from manyglot.model.kernels.grouped_matmul import triton_grouped_matmul

        return triton_grouped_matmul(x_ND, matrix_LDE, group_end_L)
    y_NE: Tensor = F.grouped_mm(x_ND, matrix_LDE, offs=group_end_L)
    return y_NE


def _add_to_each_matrix(matrix_LED: Tensor, weight_ED: Tensor) -> Tensor:
    if kernels.runs_kernels(matrix_LED.device):
        from manyglot.model.kernels.grouped_matmul import add_to_each_matrix

        return add_to_each_matrix(matrix_LED, weight_ED)
    return matrix_LED + weight_ED


def _chunk_gradients(x_ND: Tensor, y_NE: Tensor, chunk_end_P: Tensor, membership_LP: Tensor) -> tuple[Tensor, Tensor]:
    """Return x^T y over the tokens of each chunk, and the membership of the chunks in the data type of x."""
    parts_PDE: Tensor = F.grouped_mm(x_ND.T, y_NE, offs=chunk_end_P)
    return parts_PDE, membership_LP.to(x_ND.dtype)


class GradientAccumulator:
    """Sums the gradients of a table over all its uses, in place.

    Without it, each use would write a gradient as large as the table, and autograd would read all of them to sum them.
    """

    def __init__(self) -> None:
        self.sum_LDE: Tensor | None = None

    def add(self, parts_PDE: Tensor, membership_LP: Tensor) -> None:
        """Add the gradient of one use, given as partial sums per chunk and the membership of the chunks."""
        parts_PF = parts_PDE.flatten(1)
        if self.sum_LDE is None:
            self.sum_LDE = (membership_LP @ parts_PF).view(-1, *parts_PDE.shape[1:])
        else:
            self.sum_LDE.view(len(self.sum_LDE), -1).addmm_(membership_LP, parts_PF)

    def pop_sum(self) -> Tensor | None:
        """Return the sum of the gradients and clear it; None if there are none."""
        sum_LDE, self.sum_LDE = self.sum_LDE, None
        return sum_LDE


class SharedTable(NamedTuple):
    """A table that is used many times, and the accumulator of its gradient."""

    table: Tensor
    accumulator: GradientAccumulator


class _CollectGradient(torch.autograd.Function):
    """The identity between a table and its uses; its backward pass returns the accumulated gradient.

    Autograd runs a node only after all its uses that contribute to the loss. So the sum in the accumulator is complete,
    and no gradient is lost.
    """

    @staticmethod
    def forward(ctx: Any, table: Tensor, accumulator: GradientAccumulator) -> Tensor:
        ctx.accumulator, ctx.transposed = accumulator, _is_transposed(table)
        ctx.set_materialize_grads(False)
        return table.view_as(table)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor | None) -> tuple[Tensor | None, None]:
        assert gradient is None, "all uses add to the accumulator"
        total = ctx.accumulator.pop_sum()
        return total.mT if total is not None and ctx.transposed else total, None


def _is_transposed(table: Tensor) -> bool:
    return table.stride(-1) != 1


def _matmul_per_language(x_ND: Tensor, matrix_LDE: Tensor, group_end_L: Tensor) -> Tensor:
    """Compute one product for each language that has rows."""
    sizes = group_end_L.diff(prepend=group_end_L.new_zeros(1)).tolist()
    # unbind and split instead of indexing: the gradient of each index would be as large as the whole table
    parts = zip(torch.split(x_ND, sizes), matrix_LDE.unbind(), strict=True)
    products = [x_nD @ matrix_DE for x_nD, matrix_DE in parts if len(x_nD)]
    return torch.cat(products) if products else x_ND @ matrix_LDE[0]


def _matmul_per_span(x_ND: Tensor, matrix_LDE: Tensor, spans: Sequence[LanguageSpan], num_positions: int) -> Tensor:
    """`_matmul_per_language` for inference: each product is written into one result."""
    y_NE = x_ND.new_empty(len(x_ND), matrix_LDE.shape[2])
    for language, start, end in spans:
        rows = slice(start * num_positions, end * num_positions)
        torch.mm(x_ND[rows], matrix_LDE[language], out=y_NE[rows])
    return y_NE


def matmul_dtype(x: Tensor) -> torch.dtype:
    """Return the data type for grouped products of x. Autocast ignores them, so its data type is applied here."""
    device_type = x.device.type
    uses_autocast = torch.is_autocast_enabled(device_type) and x.dtype != torch.float64  # autocast keeps float64
    return torch.get_autocast_dtype(device_type) if uses_autocast else x.dtype
