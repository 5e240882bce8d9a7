"""The best continuations of beams, in one pass over the scores of a large vocabulary.

The columns of a row are dealt to lanes, and the largest score of each lane is found while the exponentials are added
up. The best C scores are in the best C lanes: a lane that holds one of them has a maximum at least as large. So what is
left is to look into C lanes of all the beams of a sentence.

Shape letters: B sentences, K beams, N = B·K rows, V vocabulary, W columns (V filled up), A lanes, C candidates, D model
width, R columns of a lane.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

LANES = 1024
AT_ONCE = 4
"""Columns of a lane that are read together."""
NUM_WARPS = 4


@triton.jit
def _seen(
    row_ptr, start, most, best, total, allowed_first, allowed_end, never,
    V: tl.constexpr, EDGE: tl.constexpr, LANES: tl.constexpr, AT_ONCE: tl.constexpr,
):  # fmt: skip
    """Some columns more; only those at the edges of the vocabulary are asked whether they may be written."""
    LOG2E: tl.constexpr = 1.4426950408889634
    columns = start + tl.arange(0, LANES)[None, :] + LANES * tl.arange(0, AT_ONCE)[:, None]
    if EDGE:
        z = tl.load(row_ptr + columns, mask=columns < V, other=-1e30).to(tl.float32)
    else:
        z = tl.load(row_ptr + columns).to(tl.float32)
    highest = tl.max(z, axis=0)
    new = tl.maximum(most, highest)
    total = total * tl.exp2((most - new) * LOG2E) + tl.sum(tl.exp2((z - new[None, :]) * LOG2E), axis=0)
    if EDGE:
        may = (columns >= allowed_first) & (columns < allowed_end) & (columns != never)
        highest = tl.max(tl.where(may, z, float("-inf")), axis=0)
    return new, tl.maximum(best, highest), total


@triton.jit
def _lanes_kernel(
    scores_ptr, base_ptr, lanes_ptr, total_ptr, allowed_first, allowed_end, never,
    V: tl.constexpr, W: tl.constexpr, END: tl.constexpr, LANES: tl.constexpr, AT_ONCE: tl.constexpr,
):  # fmt: skip
    """One row: the largest log-probability of each lane among the words that may be written, and log sum exp of all.

    To the log-probabilities that of the beam is added. Between the first columns and the end, all may be written.
    """
    LOG2E: tl.constexpr = 1.4426950408889634
    STEP: tl.constexpr = LANES * AT_ONCE
    row = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, LANES)
    row_ptr = scores_ptr + row * W
    most = tl.full((LANES,), -1e30, dtype=tl.float32)
    best = tl.full((LANES,), float("-inf"), dtype=tl.float32)
    total = tl.zeros((LANES,), dtype=tl.float32)
    most, best, total = _seen(row_ptr, 0, most, best, total, allowed_first, allowed_end, never, V, True, LANES, AT_ONCE)
    for start in range(STEP, END, STEP):
        most, best, total = _seen(
            row_ptr, start, most, best, total, allowed_first, allowed_end, never, V, False, LANES, AT_ONCE
        )
    for start in range(END, V, STEP):
        most, best, total = _seen(
            row_ptr, start, most, best, total, allowed_first, allowed_end, never, V, True, LANES, AT_ONCE
        )
    highest = tl.max(most, axis=0)
    log_total = highest + tl.log(tl.sum(total * tl.exp2((most - highest) * LOG2E), axis=0))
    tl.store(total_ptr + row, log_total)
    tl.store(lanes_ptr + row * LANES + lane, best + (tl.load(base_ptr + row) - log_total))


@triton.jit
def _columns_kernel(
    scores_ptr, base_ptr, total_ptr, chosen_ptr, out_ptr, allowed_first, allowed_end, never,
    K: tl.constexpr, W: tl.constexpr, C: tl.constexpr, R: tl.constexpr,
    LANES: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """One of the chosen lanes of a sentence: its log-probabilities."""
    sentence, place = tl.program_id(0).to(tl.int64), tl.program_id(1)
    chosen = tl.load(chosen_ptr + sentence * C + place)
    row, lane = sentence * K + chosen // LANES, chosen % LANES
    each = tl.arange(0, COLUMNS)
    column = lane + LANES * each
    may = (each < R) & (column >= allowed_first) & (column < allowed_end) & (column != never)
    z = tl.load(scores_ptr + row * W + column, mask=may, other=float("-inf")).to(tl.float32)
    z += tl.load(base_ptr + row) - tl.load(total_ptr + row)
    tl.store(out_ptr + (sentence * C + place) * R + each, z, mask=each < R)


def best_continuations(
    score_NW: Tensor, base_BK: Tensor, number: int, vocabulary: int, allowed: range, never: int
) -> tuple[Tensor, Tensor, Tensor]:
    """The beams and words of each sentence whose log-probabilities are largest together, and log sum exp of each row.

    Among the words of a range but one; all words have a part in the sum, and columns beyond the vocabulary have none.
    """
    (num_sentences, beam), (num_rows, columns) = base_BK.shape, score_NW.shape
    device, per_lane = score_NW.device, triton.cdiv(vocabulary, LANES)
    lane_BA = torch.empty((num_sentences, beam * LANES), dtype=torch.float32, device=device)
    total_N = torch.empty(num_rows, dtype=torch.float32, device=device)
    words = allowed.start, allowed.stop, never
    step = LANES * AT_ONCE
    _lanes_kernel[(num_rows,)](
        score_NW, base_BK, lane_BA, total_N, *words, V=vocabulary, W=columns,
        END=max(step, allowed.stop // step * step), LANES=LANES, AT_ONCE=AT_ONCE, num_warps=NUM_WARPS,
    )  # fmt: skip
    number = min(number, beam * LANES)
    chosen_BC = places_of_best(lane_BA, number)
    score_BE = torch.empty((num_sentences, number * per_lane), dtype=torch.float32, device=device)
    _columns_kernel[(num_sentences, number)](
        score_NW, base_BK, total_N, chosen_BC, score_BE, *words, K=beam, W=columns, C=number, R=per_lane,
        LANES=LANES, COLUMNS=triton.next_power_of_2(per_lane), num_warps=1,
    )  # fmt: skip
    place_BC = places_of_best(score_BE, number)
    chosen_BC = chosen_BC.gather(1, place_BC // per_lane)
    return chosen_BC // LANES, chosen_BC % LANES + LANES * (place_BC % per_lane), total_N


@triton.jit
def _places_kernel(values_ptr, places_ptr, E: tl.constexpr, C: tl.constexpr, COLUMNS: tl.constexpr):
    """One row: find the largest, take it away, and so on."""
    row, column = tl.program_id(0).to(tl.int64), tl.arange(0, COLUMNS)
    values = tl.load(values_ptr + row * E + column, mask=column < E, other=0.0)
    values = tl.where(column < E, tl.maximum(values, -3e38), float("-inf"))  # what is taken is below all others
    for number in range(C):
        place = tl.argmax(values, axis=0)
        tl.store(places_ptr + row * C + number, place.to(tl.int64))
        values = tl.where(column == place, float("-inf"), values)


def places_of_best(values_BE: Tensor, number: int) -> Tensor:
    """The places of the largest values of each row, largest first; the library's is made for many more than a few."""
    columns = triton.next_power_of_2(values_BE.shape[1])
    places_BC = torch.empty((len(values_BE), number), dtype=torch.long, device=values_BE.device)
    _places_kernel[(len(values_BE),)](
        values_BE, places_BC, E=values_BE.shape[1], C=number, COLUMNS=columns, num_warps=4 if columns <= 2048 else 8
    )
    return places_BC


@triton.jit
def _exact_kernel(
    hidden_ptr, weight_ptr, beam_ptr, word_ptr, total_ptr, out_ptr,
    K: tl.constexpr, C: tl.constexpr, D: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """One candidate of a sentence."""
    place = tl.program_id(0).to(tl.int64)
    row = place // C * K + tl.load(beam_ptr + place)
    each = tl.arange(0, WIDTH)
    hidden = tl.load(hidden_ptr + row * D + each, mask=each < D, other=0.0).to(tl.float32)
    weight = tl.load(weight_ptr + tl.load(word_ptr + place) * D + each, mask=each < D, other=0.0).to(tl.float32)
    tl.store(out_ptr + place, tl.sum(hidden * weight, axis=0) - tl.load(total_ptr + row))


def exact_scores(hidden_BKD: Tensor, weight_VD: Tensor, beam_BC: Tensor, word_BC: Tensor, total_N: Tensor) -> Tensor:
    """The log-probabilities of some words after some beams of each sentence."""
    score_BC, (_, beam, width) = torch.empty_like(beam_BC, dtype=torch.float32), hidden_BKD.shape
    _exact_kernel[(beam_BC.numel(),)](
        hidden_BKD.contiguous(), weight_VD, beam_BC.contiguous(), word_BC.contiguous(), total_N, score_BC,
        K=beam, C=beam_BC.shape[1], D=width, WIDTH=triton.next_power_of_2(width), num_warps=1,
    )  # fmt: skip
    return score_BC
