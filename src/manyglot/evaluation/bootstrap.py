"""Whether one run is better than another or only luckier: paired bootstrap resampling (Koehn 2004).

The test sentences are drawn again and again with replacement, the same for both runs, and BLEU is computed of each draw
from the sums of what was counted in its sentences. The p-value is the share of draws whose difference, less the mean
of all draws, is at least as large as the difference found (Riezler and Maxwell 2005, as in sacreBLEU).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
import numpy.typing as npt

from manyglot.corpus.languages import Direction
from manyglot.evaluation.scores import bleu_score, bleu_scores

Floats = npt.NDArray[np.float64]
CELLS_AT_ONCE = 4_000_000
"""Draws times sentences that are held in memory."""


@dataclass(frozen=True)
class Significance:
    """A difference in BLEU, and how likely it is to come from the choice of sentences alone."""

    difference: float
    p_value: float


class Drawn(NamedTuple):
    """The differences between two runs in one direction."""

    difference: float
    resampled_R: Floats

    def significance(self) -> Significance:
        """Of this direction alone."""
        return significance(self.difference, self.resampled_R)


def resample(
    ours_NS: npt.NDArray[Any], theirs_NS: npt.NDArray[Any], direction: Direction, num_samples: int, seed: int
) -> Drawn:
    """The BLEU of one run minus that of another, on all sentences and on draws of them."""
    assert len(ours_NS) == len(theirs_NS), "pairs of the same sentences"
    number = len(ours_NS)
    rng = np.random.default_rng([seed, crc32(str(direction).encode())])  # a direction has the same draws in any company
    both_NS = np.concatenate([ours_NS, theirs_NS], axis=1).astype(np.float64)
    size = ours_NS.shape[1]
    parts = []
    at_once = max(CELLS_AT_ONCE // number, 1)
    for start in range(0, num_samples, at_once):
        rows = min(at_once, num_samples - start)
        drawn = rng.integers(0, number, size=(rows, number)) + np.arange(rows)[:, None] * number
        times_RN = np.bincount(drawn.reshape(-1), minlength=rows * number).reshape(rows, number)
        totals_RS = times_RN.astype(np.float64) @ both_NS
        parts.append(bleu_scores(totals_RS[:, :size]) - bleu_scores(totals_RS[:, size:]))
    ours, theirs = (bleu_score(each.sum(axis=0).tolist()) for each in (ours_NS, theirs_NS))
    return Drawn(ours - theirs, np.concatenate(parts))


def significance(difference: float, resampled_R: Floats) -> Significance:
    """The p-value of a difference by draws of it."""
    as_large = np.abs(resampled_R - resampled_R.mean()) >= abs(difference) - 1e-12
    return Significance(difference, float((as_large.sum() + 1) / (len(resampled_R) + 1)))


def overall(drawn: Sequence[Drawn]) -> Significance:
    """Of the mean over directions; each has its own draws, so sentences they share count as different ones."""
    differences = float(np.mean([each.difference for each in drawn]))
    return significance(differences, np.mean([each.resampled_R for each in drawn], axis=0))
