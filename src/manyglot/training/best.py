"""Which steps of a run are its best, and how long ago it was last better."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from manyglot.errors import SettingsError

BestBy = Literal["auto", "dev_nll", "dev_bleu", "dev_chrf", "zero_shot_language_accuracy", "zero_shot_chrf"]
BY_ITSELF = ("dev_bleu", "dev_nll")
"""What `auto` takes: the first of these that is measured."""
LOWER_IS_BETTER = ("dev_nll",)
NOTHING = 0.0
"""BLEU, chrF++ and language accuracy before a model has learnt anything; to wait begins later."""
NEEDS: dict[str, str] = {
    "dev_nll": "dev text of trained directions and validation.pairs above 0",
    "dev_bleu": "dev text of trained directions and validation.sentences above 0",
    "dev_chrf": "dev text of trained directions and validation.sentences above 0",
    "zero_shot_language_accuracy": "dev text, directions without training and validation.zero_shot_sentences above 0",
    "zero_shot_chrf": "dev references in directions without training and validation.zero_shot_sentences above 0",
}
"""For who asks for what is not measured."""

Sample = Mapping[str, int | str]
"""What identifies the sample that a metric is measured on: names with counts and identifiers, never prose."""


@dataclass(frozen=True)
class Criterion:
    """What selects the best step: a metric and the sample it is measured on. Scores compare only if both are equal."""

    metric: str
    sample: Sample

    @property
    def lower_is_better(self) -> bool:
        """Whether a lower score is the better one."""
        return self.metric in LOWER_IS_BETTER


class Score(NamedTuple):
    """What was measured at a step."""

    step: int
    value: float


@dataclass(frozen=True)
class Best:
    """The best steps of a run, best first; of equals the later. A checkpoint holds it, so a run goes on with it."""

    criterion: Criterion | None = None
    """What the scores are of; None where no metric selects the best step."""
    scores: tuple[Score, ...] = ()
    waited: int = 0
    """Validations since the last that was better than all before it; they count from the first that was not zero."""

    @property
    def steps(self) -> list[int]:
        """The steps whose checkpoints are to be kept."""
        return [score.step for score in self.scores]

    def after(self, step: int, value: float, keep: int) -> Best:
        """The same with one more validation, of which the best `keep` are remembered."""
        if not math.isfinite(value):
            return Best(self.criterion, self.scores, self.waited + 1)
        better = not self.scores or self._rank(value) < self._rank(self.scores[0].value)
        nothing_yet = self.scores and self.scores[0].value == NOTHING
        scores = sorted([*self.scores, Score(step, value)], key=lambda s: (self._rank(s.value), -s.step))
        return Best(self.criterion, tuple(scores[:keep]), 0 if better or nothing_yet else self.waited + 1)

    def _rank(self, value: float) -> float:
        return value if self.criterion is not None and self.criterion.lower_is_better else -value

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Best:
        """Read what `dataclasses.asdict` makes of it."""
        criterion = None if values["criterion"] is None else Criterion(**values["criterion"])
        return cls(criterion, tuple(Score(*score) for score in values["scores"]), values["waited"])


def metric_to_choose_by(best_by: BestBy | None, measured: Collection[str], patience: int | None) -> str | None:
    """The metric that decides what is best, if there is one; refuse one that is not measured."""
    if best_by is not None and best_by != "auto" and best_by not in measured:
        known = ", ".join(measured) or "nothing"
        raise SettingsError(f"training.best_by: {best_by} needs {NEEDS[best_by]}. Here, {known} can be measured.")
    chosen = next((name for name in BY_ITSELF if name in measured), None) if best_by == "auto" else best_by
    if patience is not None and chosen is None:
        why = "training.best_by is null" if best_by is None else "nothing is measured"
        raise SettingsError(f"training.patience: nothing tells if the model gets better, as {why}. Use null here too.")
    return chosen
