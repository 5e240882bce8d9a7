"""Whether one run is better than another or only luckier: paired bootstrap resampling (Koehn 2004).

The test sentences are drawn again and again with replacement, the same for both runs, and BLEU is computed of each draw
from the sums of what was counted in its sentences. The p-value is the share of draws whose difference, less the mean
of all draws, is at least as large as the difference found (Riezler and Maxwell 2005, as in sacreBLEU).

How often a sentence is in a draw is a Poisson number with a mean of 1, which is what drawing as many as there are comes
to, and depends on nothing but its key. Directions that share the rows of a test set have them in the same draws, so
the mean over thousands of directions is no surer than its rows make it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, factorial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from manyglot.batches.permutation import mix
from manyglot.evaluation.scores import bleu_score, bleu_scores
from manyglot.evaluation.statistics import Array

Floats = npt.NDArray[np.float64]
CELLS_AT_ONCE = 4_000_000
"""Draws times sentences that are held in memory."""
PER_HASH = 4
"""Numbers of 16 bits that a hash of 64 bits holds."""
_CHANCES = np.cumsum([exp(-1) / factorial(times) for times in range(9)])
_POISSON = np.searchsorted(_CHANCES, (np.arange(1 << 16) + 0.5) / (1 << 16)).astype(np.uint8)
"""How often a sentence is drawn, by 16 random bits."""


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


def resample(ours_NS: Array, theirs_NS: Array, keys_N: Array, num_samples: int, seed: int) -> Drawn:
    """The BLEU of one run minus that of another, on all sentences and on draws of them; see `times_drawn` for keys."""
    assert len(ours_NS) == len(theirs_NS) == len(keys_N), "pairs of the same sentences"
    both_NS = np.concatenate([ours_NS, theirs_NS], axis=1).astype(np.float64)
    size = ours_NS.shape[1]
    at_once = max(CELLS_AT_ONCE // len(keys_N) // PER_HASH, 1) * PER_HASH
    parts = []
    for first in range(0, num_samples, at_once):
        times_NR = times_drawn(keys_N, range(first, min(first + at_once, num_samples)), seed)
        totals_RS = times_NR.T.astype(np.float64) @ both_NS
        parts.append(bleu_scores(totals_RS[:, :size]) - bleu_scores(totals_RS[:, size:]))
    ours, theirs = (bleu_score(each.sum(axis=0).tolist()) for each in (ours_NS, theirs_NS))
    return Drawn(ours - theirs, np.concatenate(parts))


def times_drawn(keys_N: Array, samples: range, seed: int) -> Array:
    """How often sentences are in some of the samples; those with the same key always as often as one another."""
    assert samples.start % PER_HASH == 0, "a hash is enough for so many"
    numbers_H = np.arange(samples.start, samples.stop, PER_HASH, dtype=np.uint64)
    hashes_NH = mix(mix(seed, keys_N)[:, None], numbers_H)
    times_NR: Array = _POISSON[hashes_NH.view(np.uint16)[:, : len(samples)]]
    return times_NR


def significance(difference: float, resampled_R: Floats) -> Significance:
    """The p-value of a difference by draws of it."""
    as_large = np.abs(resampled_R - resampled_R.mean()) >= abs(difference) - 1e-12
    return Significance(difference, float((as_large.sum() + 1) / (len(resampled_R) + 1)))


def overall(drawn: Sequence[Drawn]) -> Significance:
    """Of the mean over directions."""
    differences = float(np.mean([each.difference for each in drawn]))
    return significance(differences, np.mean([each.resampled_R for each in drawn], axis=0))
