"""`manyglot compare`: evaluated runs side by side, with significance tests."""

from __future__ import annotations

from collections.abc import Sequence

from manyglot.evaluation.comparison import Comparison, read_systems
from manyglot.evaluation.comparison import compare as compare_systems


def compare(
    runs: Sequence[str], reference: str | None = None, common: bool = False, num_samples: int = 0, seed: int = 1
) -> Comparison:
    """Compare runs, each given as `[NAME=]FOLDER[,FOLDER…]` with one output folder of `evaluate` per seed.

    Win rates and the paired bootstrap (`num_samples` above 0) are relative to the `reference`. With `common`, only the
    directions and sentences that all runs share are compared.
    """
    systems, name = read_systems(runs, reference)
    return compare_systems(systems, name, common, num_samples, seed)
