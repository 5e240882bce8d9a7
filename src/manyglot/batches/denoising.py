"""Denoising: a sentence paired with itself, of whose source some subwords are left out, to be put right.

It is for languages that some others are never translated into in training: their decoder would otherwise read nothing
but the pivot. Which pairs and which subwords these are follows from seed, epoch and place, as all of the plan does.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from manyglot.batches.permutation import mix
from manyglot.batches.store import AnyInts
from manyglot.corpus.languages import Direction

LEFT_OUT = 0.2
"""Share of the subwords that are left out."""

Mask = npt.NDArray[np.bool_]


def may_be_denoised(directions: Sequence[Direction]) -> Mask:
    """Whether the source of each direction lacks training from some other language."""
    languages = {code for direction in directions for code in direction}
    reached = {code: {d.source for d in directions if d.target == code} for code in languages}
    return np.array([languages - reached[direction.source] > {direction.source} for direction in directions])


def with_chance(share: float | npt.NDArray[np.float64], *place: npt.ArrayLike) -> Mask:
    """A pseudo-random choice for each place: True for about such a share of them."""
    return np.asarray((mix(*place) >> np.uint64(11)) * 2.0**-53 < share)


def kept_subwords(source: AnyInts, target: AnyInts, lengths: AnyInts, key: int) -> Mask | None:
    """Which subwords of all sources of a batch are read; None: all, as in a batch without denoising."""
    own = source == target
    if not own.any():
        return None
    kept: Mask = ~np.repeat(own, lengths)
    places = np.flatnonzero(~kept)
    kept[places] = ~with_chance(LEFT_OUT, key, places)
    return kept
