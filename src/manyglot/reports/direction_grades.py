"""Grades of directions by their scores, which the verdict of the HTML report builds on."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

from manyglot.evaluation.results import DirectionResult

GOOD_BLEU, GOOD_CHRF = 30, 50
"""A direction is good if it reaches one of these scores and is not off-target."""
BAD_BLEU, BAD_CHRF = 10, 30
"""A direction is bad if it is below both scores. Either metric alone is low in some writing systems without fault."""
OFF_TARGET_RELATIVE_ACCURACY = 80
"""A direction is off-target if its relative LangAcc is lower."""
MIN_REFERENCE_ACCURACY = 50
"""With a lower LangAcc of the references, the identifier says nothing about a direction."""

RULES = (
    f"A direction is good if it has at least {GOOD_BLEU} BLEU or {GOOD_CHRF} chrF++ and is not off-target. It is bad "
    f"if it has less than {BAD_BLEU} BLEU and less than {BAD_CHRF} chrF++. Others are fair. A direction is off-target "
    f"if its LangAcc is below {OFF_TARGET_RELATIVE_ACCURACY}% of the references' LangAcc. Directions in which the "
    f"identifier recognizes less than {MIN_REFERENCE_ACCURACY}% of the references are not judged by LangAcc. These "
    f"limits are rough: scores depend on the test set and the languages."
)


class Grade(StrEnum):
    """The quality of a direction."""

    GOOD = "good"
    FAIR = "fair"
    BAD = "bad"


def grade(d: DirectionResult) -> Grade:
    """Grade a direction by its scores."""
    chrf = d.chrf if math.isfinite(d.chrf) else 0.0
    if d.bleu < BAD_BLEU and chrf < BAD_CHRF:
        return Grade.BAD
    is_high = d.bleu >= GOOD_BLEU or chrf >= GOOD_CHRF
    return Grade.GOOD if is_high and not is_off_target(d) else Grade.FAIR


def can_judge_language(d: DirectionResult) -> bool:
    """Whether the identifier knows the target language and recognizes enough of the references."""
    return d.language_accuracy is not None and (d.reference_language_accuracy or 0) >= MIN_REFERENCE_ACCURACY


def is_off_target(d: DirectionResult) -> bool:
    """Whether far fewer outputs than references are in the target language; False if the identifier cannot tell."""
    relative = d.relative_language_accuracy if can_judge_language(d) else None
    return relative is not None and relative < OFF_TARGET_RELATIVE_ACCURACY


class GradedGroup(NamedTuple):
    """Directions that are judged together, with a name in the plural."""

    name: str
    results: Sequence[DirectionResult]

    def grades(self) -> Counter[Grade]:
        """Count the directions of each grade."""
        return Counter(map(grade, self.results))

    def share_of(self, which: Grade) -> float:
        """Return the share of directions with a grade."""
        return self.grades()[which] / len(self.results)

    def off_target(self) -> list[DirectionResult]:
        """Return the off-target directions."""
        return [d for d in self.results if is_off_target(d)]
