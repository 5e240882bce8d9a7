"""`manyglot compare`: evaluated runs side by side, with significance tests."""

from __future__ import annotations

from collections.abc import Sequence

from manyglot.evaluation.system_comparison import Comparison, compare_systems, load_systems


def compare(
    runs: Sequence[str],
    baseline: str | None = None,
    common_test_only: bool = False,
    num_bootstrap_samples: int = 0,
    seed: int = 1,
) -> Comparison:
    """Compare runs, each given as `[NAME=]FOLDER[,FOLDER…]` with one output folder of `evaluate` per seed.

    Win rates and the paired bootstrap (`num_bootstrap_samples` above 0) are relative to the `baseline`. With
    `common_test_only`, only the test sentences that all runs share are compared.
    """
    systems, name = load_systems(runs, baseline)
    return compare_systems(systems, name, common_test_only, num_bootstrap_samples, seed)
