"""The best of many scores, in one pass: for a search that wants a few words of a large vocabulary.

The columns of a row are dealt to lanes, and the largest score of each lane is found while the exponentials are added
up. The best C scores are in the best C lanes: a lane that holds one of them has a maximum at least as large. So what is
left is to look into C lanes.

Shape letters: N rows, V vocabulary, A lanes, C candidates, R columns of a lane.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

LANES = 1024
AT_ONCE = 8
"""Columns of a lane that are read together."""


@triton.jit
def _lanes_kernel(
    scores_ptr, most_ptr, total_ptr, stride, allowed_first, allowed_end, never,
    VOCABULARY: tl.constexpr, LANES: tl.constexpr, AT_ONCE: tl.constexpr,
):  # fmt: skip
    """One row: the largest score of each lane among the words that may be written, and log sum exp of all."""
    LOG2E: tl.constexpr = 1.4426950408889634
    row = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, LANES)
    most = tl.full((LANES,), -1e30, dtype=tl.float32)
    best = tl.full((LANES,), float("-inf"), dtype=tl.float32)
    total = tl.zeros((LANES,), dtype=tl.float32)
    for start in range(0, VOCABULARY, LANES * AT_ONCE):
        columns = start + lane[:, None] + LANES * tl.arange(0, AT_ONCE)[None, :]
        z = tl.load(scores_ptr + row * stride + columns, mask=columns < VOCABULARY, other=-1e30).to(tl.float32)
        new = tl.maximum(most, tl.max(z, axis=1))
        total = total * tl.exp2((most - new) * LOG2E) + tl.sum(tl.exp2((z - new[:, None]) * LOG2E), axis=1)
        most = new
        may = (columns >= allowed_first) & (columns < allowed_end) & (columns != never)
        best = tl.maximum(best, tl.max(tl.where(may, z, float("-inf")), axis=1))
    highest = tl.max(most, axis=0)
    tl.store(total_ptr + row, highest + tl.log(tl.sum(total * tl.exp2((most - highest) * LOG2E), axis=0)))
    tl.store(most_ptr + row * LANES + lane, best)


def best_of(scores_NV: Tensor, number: int, allowed: range, never: int) -> tuple[Tensor, Tensor, Tensor]:
    """The largest scores of each row with their columns, and log sum exp of all its scores.

    Among the columns of a range but one; all have a part in the sum.
    """
    num_rows, vocabulary = scores_NV.shape
    most_NA = torch.empty((num_rows, LANES), dtype=torch.float32, device=scores_NV.device)
    total_N = torch.empty(num_rows, dtype=torch.float32, device=scores_NV.device)
    _lanes_kernel[(num_rows,)](
        scores_NV, most_NA, total_N, scores_NV.stride(0), allowed.start, allowed.stop, never,
        VOCABULARY=vocabulary, LANES=LANES, AT_ONCE=AT_ONCE, num_warps=8,
    )  # fmt: skip
    lane_NC = most_NA.topk(min(number, LANES)).indices
    across_R = torch.arange(0, vocabulary, LANES, device=scores_NV.device)
    column_NE = (lane_NC[:, :, None] + across_R).flatten(1)
    may_NE = (column_NE >= allowed.start) & (column_NE < allowed.stop) & (column_NE != never)
    score_NE = scores_NV.gather(1, column_NE.clamp_max(vocabulary - 1)).float().masked_fill(~may_NE, -torch.inf)
    score_NC, place_NC = score_NE.topk(min(number, score_NE.shape[1]))
    return score_NC, column_NE.gather(1, place_NC), total_N
