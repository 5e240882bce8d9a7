"""The second stage of a sum over many tokens: the sum of the programs' partial sums.

A general reduction takes twice as long for arrays this long and narrow.

Shape letters: P parts, C columns.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

TILE = {"ROWS": 512, "COLUMNS": 16, "num_warps": 8}


@triton.jit(do_not_specialize=["num_rows"])
def _column_sum_kernel(parts_ptr, out_ptr, num_rows, WIDTH: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Sum a few columns."""
    columns = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    column_mask, total = columns < WIDTH, tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    for first in range(0, num_rows, ROWS):
        rows = first + tl.arange(0, ROWS)
        mask = (rows < num_rows)[:, None] & column_mask[None, :]
        total += tl.load(parts_ptr + rows[:, None] * WIDTH + columns[None, :], mask=mask, other=0.0)
    tl.store(out_ptr + columns, tl.sum(total, axis=0), mask=column_mask)


def reduce_partial_sums(parts: Tensor) -> Tensor:
    """Sum a float32 tensor over its first dimension."""
    parts_PC = parts.flatten(1)
    width = parts_PC.shape[1]
    out_C = torch.empty(width, dtype=torch.float32, device=parts.device)
    _column_sum_kernel[(triton.cdiv(width, TILE["COLUMNS"]),)](parts_PC, out_C, len(parts_PC), WIDTH=width, **TILE)
    return out_C.view(parts.shape[1:])
