"""Products of tokens with the matrix of their language, for tokens sorted by language.

A program computes one tile of the result. It determines the language of its rows itself, so that the launch does not
depend on the number of tokens per language. The last tile of a language may be partly filled.

Shape letters: N tokens, D width in, E width out, L languages.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.tools.tensor_descriptor import TensorDescriptor

TILE = {"ROWS": 128, "COLUMNS": 128, "DEPTH": 32, "num_warps": 4, "num_stages": 4}


@triton.jit
def _grouped_matmul_kernel(
    x, matrix, y, y_ptr, group_end_ptr,
    D: tl.constexpr, E: tl.constexpr, L: tl.constexpr, TRANSPOSED: tl.constexpr,
    LANGUAGES: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr,
):  # fmt: skip
    """Compute one tile of rows of one language."""
    num_column_tiles: tl.constexpr = (E + COLUMNS - 1) // COLUMNS
    tile, first = tl.program_id(0) // num_column_tiles, tl.program_id(0) % num_column_tiles * COLUMNS
    language_index = tl.arange(0, LANGUAGES)
    group_end = tl.load(group_end_ptr + language_index, mask=language_index < L, other=0)
    group_start = tl.load(group_end_ptr + language_index - 1, mask=(language_index > 0) & (language_index < L), other=0)
    num_tiles = tl.where(language_index < L, (group_end - group_start + ROWS - 1) // ROWS, 0)
    tiles_up_to = tl.cumsum(num_tiles, axis=0)
    language = tl.sum((tiles_up_to <= tile).to(tl.int32), axis=0)
    if language >= L:
        return
    row = tl.sum(tl.where(language_index == language, group_start + (tile - tiles_up_to + num_tiles) * ROWS, 0), axis=0)
    end = tl.sum(tl.where(language_index == language, group_end, 0), axis=0)
    total = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    for depth in range(0, D, DEPTH):
        if TRANSPOSED:
            part = tl.trans(matrix.load([language * E + first, depth]))
        else:
            part = matrix.load([language * D + depth, first])
        total = tl.dot(x.load([row, depth]), part, total, input_precision="ieee")
    if row + ROWS <= end:
        y.store([row, first], total.to(y.dtype))
    else:
        rows, columns = row + tl.arange(0, ROWS), first + tl.arange(0, COLUMNS)
        mask = (rows < end)[:, None] & (columns < E)[None, :]
        offsets = y_ptr + rows[:, None].to(tl.int64) * E + columns[None, :]
        tl.store(offsets, total.to(y_ptr.dtype.element_ty), mask=mask)


def triton_grouped_matmul(x_ND: Tensor, matrix_LDE: Tensor, group_end_L: Tensor) -> Tensor:
    """Return x W_l, where the rows of each language end at `group_end_L`; every row must belong to a language."""
    num_languages, width_in, width = matrix_LDE.shape
    transposed = matrix_LDE.stride(-1) != 1
    table = (matrix_LDE.mT if transposed else matrix_LDE).flatten(0, 1)
    rows, columns, depth = TILE["ROWS"], TILE["COLUMNS"], TILE["DEPTH"]
    y_NE = x_ND.new_empty((len(x_ND), width))
    y = TensorDescriptor.from_tensor(y_NE, [rows, columns])
    x = TensorDescriptor.from_tensor(x_ND, [rows, depth])
    matrix = TensorDescriptor.from_tensor(table, [columns, depth] if transposed else [depth, columns])
    grid = (triton.cdiv(len(x_ND), rows) + num_languages) * triton.cdiv(width, columns)
    _grouped_matmul_kernel[(grid,)](
        x, matrix, y, y_NE, group_end_L, D=width_in, E=width, L=num_languages, TRANSPOSED=transposed,
        LANGUAGES=triton.next_power_of_2(num_languages), **TILE,
    )  # fmt: skip
    return y_NE


@triton.jit
def _add_to_each_kernel(table_ptr, weight_ptr, out_ptr, SIZE: tl.constexpr, BLOCK: tl.constexpr):
    """Add one block of one matrix."""
    blocks: tl.constexpr = (SIZE + BLOCK - 1) // BLOCK
    offsets = tl.program_id(0) % blocks * BLOCK + tl.arange(0, BLOCK)
    mask, start = offsets < SIZE, (tl.program_id(0) // blocks).to(tl.int64) * SIZE
    total = tl.load(table_ptr + start + offsets, mask=mask).to(tl.float32)
    total += tl.load(weight_ptr + offsets, mask=mask).to(tl.float32)
    tl.store(out_ptr + start + offsets, total.to(out_ptr.dtype.element_ty), mask=mask)


def add_to_each_matrix(matrix_LED: Tensor, weight_ED: Tensor) -> Tensor:
    """Return W_l + W for every language; PyTorch's broadcasting sum is slower."""
    out_LED, size, block = torch.empty_like(matrix_LED), weight_ED.numel(), 4096
    _add_to_each_kernel[(len(matrix_LED) * triton.cdiv(size, block),)](
        matrix_LED, weight_ED, out_LED, SIZE=size, BLOCK=block, num_warps=8
    )
    return out_LED
