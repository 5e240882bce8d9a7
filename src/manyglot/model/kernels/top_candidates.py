"""The best candidates of a beam search step, selected in one pass over the logits of a large vocabulary.

The columns of a row are distributed over lanes, and the maximum of each lane is computed along with the sum of the
exponentials. The best C scores are in the C lanes with the largest maxima. So only C lanes per sentence, over all its
beams, need to be searched.

Shape letters: B sentences, K beams, N = B·K rows, V vocabulary, W columns (V padded), A lanes of all beams, C
candidates, D model width, R columns per lane, E values per row.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from manyglot.model.kernels.kernel_arguments import TopCandidates

LANES = 1024
COLUMNS_PER_READ = 4
"""Columns that a lane reads at a time."""
NUM_WARPS = 4


@triton.jit
def _update_lanes(
    row_ptr, start, running_max, lane_max, exp_sum, allowed_first, allowed_end, forbidden_token,
    V: tl.constexpr, EDGE: tl.constexpr, LANES: tl.constexpr, COLUMNS_PER_READ: tl.constexpr,
):  # fmt: skip
    """Update the lanes with further columns; only blocks at the vocabulary's edges check which tokens are allowed."""
    LOG2E: tl.constexpr = 1.4426950408889634
    columns = start + tl.arange(0, LANES)[None, :] + LANES * tl.arange(0, COLUMNS_PER_READ)[:, None]
    if EDGE:
        z = tl.load(row_ptr + columns, mask=columns < V, other=-1e30).to(tl.float32)
    else:
        z = tl.load(row_ptr + columns).to(tl.float32)
    block_max = tl.max(z, axis=0)
    new_max = tl.maximum(running_max, block_max)
    exp_sum = exp_sum * tl.exp2((running_max - new_max) * LOG2E) + tl.sum(
        tl.exp2((z - new_max[None, :]) * LOG2E), axis=0
    )
    if EDGE:
        is_allowed = (columns >= allowed_first) & (columns < allowed_end) & (columns != forbidden_token)
        block_max = tl.max(tl.where(is_allowed, z, float("-inf")), axis=0)
    return new_max, tl.maximum(lane_max, block_max), exp_sum


@triton.jit
def _lane_maxima_kernel(
    logits_ptr, beam_score_ptr, lanes_ptr, logsumexp_ptr, allowed_first, allowed_end, forbidden_token,
    V: tl.constexpr, W: tl.constexpr, END: tl.constexpr, LANES: tl.constexpr, COLUMNS_PER_READ: tl.constexpr,
):  # fmt: skip
    """Process one row: the largest score of an allowed token in each lane, and the logsumexp of all tokens.

    A score is the log-probability of the token plus the score of its beam. All tokens between the first block and END
    are allowed.
    """
    LOG2E: tl.constexpr = 1.4426950408889634
    STEP: tl.constexpr = LANES * COLUMNS_PER_READ
    row = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, LANES)
    row_ptr = logits_ptr + row * W
    running_max = tl.full((LANES,), -1e30, dtype=tl.float32)
    lane_max = tl.full((LANES,), float("-inf"), dtype=tl.float32)
    exp_sum = tl.zeros((LANES,), dtype=tl.float32)
    running_max, lane_max, exp_sum = _update_lanes(
        row_ptr,
        0,
        running_max,
        lane_max,
        exp_sum,
        allowed_first,
        allowed_end,
        forbidden_token,
        V,
        True,
        LANES,
        COLUMNS_PER_READ,
    )
    for start in range(STEP, END, STEP):
        running_max, lane_max, exp_sum = _update_lanes(
            row_ptr,
            start,
            running_max,
            lane_max,
            exp_sum,
            allowed_first,
            allowed_end,
            forbidden_token,
            V,
            False,
            LANES,
            COLUMNS_PER_READ,
        )
    for start in range(END, V, STEP):
        running_max, lane_max, exp_sum = _update_lanes(
            row_ptr,
            start,
            running_max,
            lane_max,
            exp_sum,
            allowed_first,
            allowed_end,
            forbidden_token,
            V,
            True,
            LANES,
            COLUMNS_PER_READ,
        )
    block_max = tl.max(running_max, axis=0)
    logsumexp = block_max + tl.log(tl.sum(exp_sum * tl.exp2((running_max - block_max) * LOG2E), axis=0))
    tl.store(logsumexp_ptr + row, logsumexp)
    tl.store(lanes_ptr + row * LANES + lane, lane_max + (tl.load(beam_score_ptr + row) - logsumexp))


@triton.jit
def _lane_columns_kernel(
    logits_ptr, beam_score_ptr, logsumexp_ptr, lane_index_ptr, out_ptr, allowed_first, allowed_end, forbidden_token,
    K: tl.constexpr, W: tl.constexpr, C: tl.constexpr, R: tl.constexpr,
    LANES: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Write the scores of one selected lane of a sentence."""
    sentence, candidate = tl.program_id(0).to(tl.int64), tl.program_id(1)
    lane_index = tl.load(lane_index_ptr + sentence * C + candidate)
    row, lane = sentence * K + lane_index // LANES, lane_index % LANES
    index = tl.arange(0, COLUMNS)
    column = lane + LANES * index
    is_allowed = (index < R) & (column >= allowed_first) & (column < allowed_end) & (column != forbidden_token)
    z = tl.load(logits_ptr + row * W + column, mask=is_allowed, other=float("-inf")).to(tl.float32)
    z += tl.load(beam_score_ptr + row) - tl.load(logsumexp_ptr + row)
    tl.store(out_ptr + (sentence * C + candidate) * R + index, z, mask=index < R)


def top_candidates(
    logits_NW: Tensor,
    beam_score_BK: Tensor,
    num_candidates: int,
    vocabulary_size: int,
    allowed_tokens: range,
    forbidden_token: int,
) -> TopCandidates:
    """Find the best candidates of each sentence.

    A candidate's score is its beam's score plus the token's log-probability. Candidates are the tokens in
    `allowed_tokens` except `forbidden_token`. The logsumexp covers the whole vocabulary, but no padding.
    """
    (num_sentences, beam_size), (num_rows, columns) = beam_score_BK.shape, logits_NW.shape
    device, columns_per_lane = logits_NW.device, triton.cdiv(vocabulary_size, LANES)
    lane_max_BA = torch.empty((num_sentences, beam_size * LANES), dtype=torch.float32, device=device)
    logsumexp_N = torch.empty(num_rows, dtype=torch.float32, device=device)
    token_range = allowed_tokens.start, allowed_tokens.stop, forbidden_token
    step = LANES * COLUMNS_PER_READ
    _lane_maxima_kernel[(num_rows,)](
        logits_NW, beam_score_BK, lane_max_BA, logsumexp_N, *token_range, V=vocabulary_size, W=columns,
        END=max(step, allowed_tokens.stop // step * step), LANES=LANES, COLUMNS_PER_READ=COLUMNS_PER_READ,
        num_warps=NUM_WARPS,
    )  # fmt: skip
    num_candidates = min(num_candidates, beam_size * LANES)
    lane_index_BC = top_indices(lane_max_BA, num_candidates)
    lane_score_BE = torch.empty((num_sentences, num_candidates * columns_per_lane), dtype=torch.float32, device=device)
    _lane_columns_kernel[(num_sentences, num_candidates)](
        logits_NW, beam_score_BK, logsumexp_N, lane_index_BC, lane_score_BE, *token_range, K=beam_size, W=columns,
        C=num_candidates, R=columns_per_lane,
        LANES=LANES, COLUMNS=triton.next_power_of_2(columns_per_lane), num_warps=1,
    )  # fmt: skip
    score_index_BC = top_indices(lane_score_BE, num_candidates)
    lane_index_BC = lane_index_BC.gather(1, score_index_BC // columns_per_lane)
    token_BC = lane_index_BC % LANES + LANES * (score_index_BC % columns_per_lane)
    return TopCandidates(lane_index_BC // LANES, token_BC, logsumexp_N)


@triton.jit
def _top_indices_kernel(values_ptr, indices_ptr, E: tl.constexpr, C: tl.constexpr, COLUMNS: tl.constexpr):
    """Process one row: find the largest value, remove it, and repeat."""
    row, column = tl.program_id(0).to(tl.int64), tl.arange(0, COLUMNS)
    values = tl.load(values_ptr + row * E + column, mask=column < E, other=0.0)
    values = tl.where(column < E, tl.maximum(values, -3e38), float("-inf"))  # removed values are below all others
    for rank in range(C):
        candidate = tl.argmax(values, axis=0)
        tl.store(indices_ptr + row * C + rank, candidate.to(tl.int64))
        values = tl.where(column == candidate, float("-inf"), values)


def top_indices(values_BE: Tensor, num_candidates: int) -> Tensor:
    """Return the indices of the largest values of each row, largest first; faster than `topk` for few candidates."""
    columns = triton.next_power_of_2(values_BE.shape[1])
    index_BC = torch.empty((len(values_BE), num_candidates), dtype=torch.long, device=values_BE.device)
    _top_indices_kernel[(len(values_BE),)](
        values_BE,
        index_BC,
        E=values_BE.shape[1],
        C=num_candidates,
        COLUMNS=columns,
        num_warps=4 if columns <= 2048 else 8,
    )
    return index_BC


@triton.jit
def _candidate_log_probs_kernel(
    hidden_ptr, weight_ptr, beam_ptr, token_ptr, logsumexp_ptr, out_ptr,
    K: tl.constexpr, C: tl.constexpr, D: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """Score one candidate of a sentence."""
    candidate = tl.program_id(0).to(tl.int64)
    row = candidate // C * K + tl.load(beam_ptr + candidate)
    index = tl.arange(0, WIDTH)
    hidden = tl.load(hidden_ptr + row * D + index, mask=index < D, other=0.0).to(tl.float32)
    weight = tl.load(weight_ptr + tl.load(token_ptr + candidate) * D + index, mask=index < D, other=0.0).to(tl.float32)
    tl.store(out_ptr + candidate, tl.sum(hidden * weight, axis=0) - tl.load(logsumexp_ptr + row))


def candidate_log_probs(
    hidden_BKD: Tensor, weight_VD: Tensor, beam_BC: Tensor, token_BC: Tensor, logsumexp_N: Tensor
) -> Tensor:
    """Return the log-probabilities of the candidates, computed from float32 products."""
    score_BC, (_, beam_size, width) = torch.empty_like(beam_BC, dtype=torch.float32), hidden_BKD.shape
    _candidate_log_probs_kernel[(beam_BC.numel(),)](
        hidden_BKD.contiguous(), weight_VD, beam_BC.contiguous(), token_BC.contiguous(), logsumexp_N, score_BC,
        K=beam_size, C=beam_BC.shape[1], D=width, WIDTH=triton.next_power_of_2(width), num_warps=1,
    )  # fmt: skip
    return score_BC
