"""Compares two evaluations by direction, such as those before and after further training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from manyglot.corpus.languages import Direction
from manyglot.evaluation.comparability import check_same_metrics, restrict_to_common_sentences
from manyglot.evaluation.results import Evaluation
from manyglot.evaluation.shared_language_codes import share_language_codes
from manyglot.evaluation.system_scores import SIGNIFICANCE_LEVEL, System, bootstrap_bleu
from manyglot.progress import progress_bar

NUM_BOOTSTRAP_SAMPLES = 1000


@dataclass(frozen=True)
class DirectionChange:
    """The BLEU of one direction before and after."""

    direction: Direction
    before: float
    after: float
    p_value: float
    num_sentences: int

    @property
    def difference(self) -> float:
        """BLEU after minus BLEU before."""
        return self.after - self.before

    @property
    def is_significant(self) -> bool:
        """Whether a difference of this size is unlikely between equally good systems."""
        return self.p_value < SIGNIFICANCE_LEVEL


@dataclass(frozen=True)
class DirectionChanges:
    """The changes of all directions that both evaluations have, the largest loss first."""

    changes: Sequence[DirectionChange]
    num_new: int
    """Number of directions that only the later evaluation has."""
    num_missing: int
    """Number of directions that only the earlier evaluation has."""

    @property
    def worse(self) -> list[DirectionChange]:
        """The significantly worse directions."""
        return [change for change in self.changes if change.is_significant and change.difference < 0]

    @property
    def better(self) -> list[DirectionChange]:
        """The significantly better directions, the largest gain first."""
        return [change for change in reversed(self.changes) if change.is_significant and change.difference > 0]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for `--json`: all changes, and how many directions are not compared."""
        changes = [
            {
                **each.direction._asdict(),
                "before": each.before,
                "after": each.after,
                "p_value": each.p_value,
                "is_significant": each.is_significant,
                "num_sentences": each.num_sentences,
            }
            for each in self.changes
        ]
        return {"changes": changes, "num_new": self.num_new, "num_missing": self.num_missing}


def find_direction_changes(before: tuple[str, Evaluation], after: tuple[str, Evaluation]) -> DirectionChanges:
    """Compare two evaluations, given with their names, on the test sentences that both have.

    A direction may be zero-shot before and supervised after.
    """
    (before_name, baseline), (after_name, run) = before, after
    run, baseline = share_language_codes([run, baseline])
    baseline = replace(baseline, central_language=run.central_language)
    check_same_metrics([run, baseline])
    supervision = {result.direction: result.zero_shot for result in run.directions}
    num_new = len(supervision.keys() - {result.direction for result in baseline.directions})
    num_missing = sum(result.direction not in supervision for result in baseline.directions)
    results = [replace(each, zero_shot=supervision.get(each.direction)) for each in baseline.directions]
    run, baseline = restrict_to_common_sentences([run, replace(baseline, directions=results)])
    systems = System(after_name, [run]), System(before_name, [baseline])
    bleu_before, changes = {result.direction: result.bleu for result in baseline.directions}, []
    with progress_bar("resampling", total=len(run.directions)) as progress:
        for result in run.directions:
            direction = result.direction
            p_value = bootstrap_bleu(*systems, direction, NUM_BOOTSTRAP_SAMPLES).significance().p_value
            changes.append(
                DirectionChange(direction, bleu_before[direction], result.bleu, p_value, result.num_sentences)
            )
            progress.advance()
    return DirectionChanges(sorted(changes, key=lambda change: change.difference), num_new, num_missing)
