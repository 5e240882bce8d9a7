"""`manyglot compare`: evaluated runs side by side, with significance tests."""

from __future__ import annotations

from collections.abc import Iterator

from manyglot.argument_types import checks_argument_types
from manyglot.evaluation.run_specs import Folders, to_run_specs
from manyglot.evaluation.system_comparison import Comparison, compare_systems, load_systems
from manyglot.files import StrPath
from manyglot.reports.comparison_table import comparison_parts
from manyglot.reports.displayable import Displayable, DisplayPart


class ComparisonResult(Displayable, Comparison):
    """The scores of all systems. Its `repr` and a notebook show the table of the paper."""

    def display_parts(self) -> Iterator[DisplayPart]:
        """Yield the table and its notes."""
        return comparison_parts(self)


@checks_argument_types
def compare(
    runs: Folders,
    baseline: StrPath | None = None,
    common_test_only: bool = False,
    num_bootstrap_samples: int = 0,
    seed: int = 1,
) -> ComparisonResult:
    """Compare runs, the output folders of `evaluate`.

    Runs are folders, or a dictionary of folders by name. To compare means over seeds, give a name several folders:
    `{"ours": ["scores-1", "scores-2"], "theirs": "scores-3"}`. Text such as `ours=scores-1,scores-2` works too.
    Win rates and the paired bootstrap (`num_bootstrap_samples` above 0) are relative to the `baseline`, a name or a
    folder. With `common_test_only`, only the test sentences that all runs share are compared.
    """
    systems, name = load_systems(to_run_specs(runs), None if baseline is None else str(baseline))
    return ComparisonResult(**vars(compare_systems(systems, name, common_test_only, num_bootstrap_samples, seed)))
