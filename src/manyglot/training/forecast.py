"""A forecast: what a run would see, take and need, worked out from its plan, its folder and a trial."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from torch import nn

from manyglot.batches.loader import Loader
from manyglot.batches.pairs import PairsIndex
from manyglot.corpus.languages import Direction, name_of
from manyglot.files import nearest
from manyglot.training.loop import TrainingSettings
from manyglot.training.trial import Trial

OFTEN = 50
"""A direction that is seen more often than this in a run is warned of."""
NAMED = 5
"""Directions that a warning names."""
SAMPLED = 2**20
"""Sentences of a language whose repetitions are counted; of more, every second or third and so on stands for all."""


@dataclass(frozen=True)
class Seen:
    """What a run sees of a direction."""

    pairs: int
    tokens: int
    """Target tokens to predict in all the pairs, tags and ends included where they are predicted."""
    times: float = 0.0
    """How often a pair is seen in the whole run, on average."""


@dataclass(frozen=True)
class Course:
    """The whole of a run, from its first step to its last."""

    directions: dict[Direction, Seen]
    num_batches: int
    """Of the first epoch; the others differ little."""
    accumulation: int
    num_steps: int
    num_epochs: float
    repeated: dict[str, float] = field(default_factory=dict)
    """Of languages whose sentences are translated from several: half of the draws are of sentences seen so often."""

    @classmethod
    def of(cls, loader: Loader, directions: Sequence[Direction], settings: TrainingSettings) -> Course:
        """Count what is in the store, and what the plan draws from it."""
        plan = loader.plan
        num_epochs, drawn_D = plan.drawn(settings.max_steps * settings.accumulation)
        times_D = (drawn_D / plan.sizes_D).tolist()
        numbers = zip(plan.sizes_D.tolist(), loader.tokens_by_direction(), times_D, strict=True)
        found = {d: Seen(*each) for d, each in zip(loader.directions, numbers, strict=True)}
        seen = {direction: found.get(direction, Seen(0, 0)) for direction in directions}
        repeated = _repeated(plan.index, found)
        return cls(seen, plan.num_batches(0), settings.accumulation, settings.max_steps, num_epochs, repeated)

    def warnings(self) -> list[str]:
        """Directions that are seen too often or too little, and an end that comes early."""
        found = []
        if often := {d: seen.times for d, seen in self.directions.items() if seen.times > OFTEN}:
            found.append(f"Seen more than {OFTEN} times: {_named(often, most_first=True)}.")
        if again := {code: times for code, times in self.repeated.items() if times > OFTEN}:
            code = max(again, key=again.__getitem__)
            found.append(
                f"Half of what is translated into {name_of(code)} is of sentences that are seen {again[code]:,.0f} "
                f"times or more, with sources in several languages: they may be learnt by heart "
                f"(batches.into={{{code}: 0.5}} draws less of them)."
            )
        if rarely := {d: seen.times for d, seen in self.directions.items() if seen.times < 1}:
            found.append(f"Not even seen once: {_named(rarely)}.")
        if self.num_epochs < 1:
            found.append(f"The last step ends within the first epoch, after {self.num_epochs:.1%} of it.")
        return found


def _repeated(index: PairsIndex, seen: Mapping[Direction, Seen]) -> dict[str, float]:
    """The median over the draws into a language of how often their target sentences are seen, whatever the source.

    A direction has a target sentence once. Where most of those above the median have one source only, it is as often as
    their direction is seen, which is told of elsewhere.
    """
    into: dict[str, list[Direction]] = {}
    for direction in seen:
        into.setdefault(direction.target, []).append(direction)
    medians = {}
    for code, directions in into.items():
        if len(directions) == 1:
            continue
        numbers = index.store.sentences(code)
        step = -(-len(numbers) // SAMPLED)
        times, sources = np.zeros(-(-len(numbers) // step)), np.zeros(-(-len(numbers) // step), dtype=np.int64)
        for direction in directions:
            place = index.pairs_of(direction)[:, 1] - numbers.start
            place = place[place % step == 0] // step if step > 1 else place
            times[place] += seen[direction].times
            sources[place] += 1
        ascending = np.sort(times)
        drawn = np.cumsum(ascending)
        median = float(ascending[np.searchsorted(drawn, drawn[-1] / 2)])
        if np.median(sources[times >= median]) > 1:
            medians[code] = median
    return medians


def _named(times: Mapping[Direction, float], *, most_first: bool = False) -> str:
    """The directions at one end, with their numbers."""
    first = sorted(times, key=lambda direction: times[direction], reverse=most_first)[:NAMED]
    more = f" and {len(times) - NAMED} more" if len(times) > NAMED else ""
    return ", ".join(f"{direction} {times[direction]:,.{0 if most_first else 2}f}×" for direction in first) + more


@dataclass(frozen=True)
class Beginning:
    """Where a run would begin."""

    folder: str
    state: Literal["new", "resumes", "finished", "refused"]
    step: int = 0
    reason: str = ""
    """Why it is refused."""


@dataclass(frozen=True)
class Disk:
    """The bytes that a run needs."""

    checkpoint: int
    needed: int
    """Beside what is there: the last and the best checkpoints, another while it is written, and the model."""
    free: int

    @classmethod
    def of(cls, run: Path, model: nn.Module, settings: TrainingSettings) -> Disk:
        """From what a checkpoint holds: the weights, and two moments of each."""
        weights = sum(tensor.nbytes for tensor in model.state_dict().values())
        checkpoint = weights + 2 * sum(parameter.nbytes for parameter in model.parameters())
        there = sum(path.stat().st_size for path in (run / "checkpoints").rglob("*") if path.is_file())
        kept = settings.keep_checkpoints + settings.keep_best
        needed = (kept + 1) * checkpoint + weights - there
        return cls(checkpoint, max(needed, 0), shutil.disk_usage(nearest(run)).free)


@dataclass(frozen=True)
class Forecast:
    """All that can be said of a run before it begins."""

    beginning: Beginning
    course: Course
    num_parameters: int
    trial: Trial | None
    """Nothing where a step does not fit into the memory."""
    disk: Disk
    validation: Mapping[str, Any]
    """What would be measured now and then; see `Validation.plan`."""

    @property
    def steps_left(self) -> int:
        """Steps that are still to be done."""
        if self.beginning.state == "finished":
            return 0
        return max(self.course.num_steps - self.beginning.step, 0)

    def warnings(self) -> list[str]:
        """What one would want to know before it is too late."""
        full = self.disk.needed > self.disk.free and self.steps_left
        return [*self.course.warnings(), *(["The disk has not enough space for the checkpoints."] if full else [])]

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        course = self.course
        return {
            "run": asdict(self.beginning),
            "directions": [{**d._asdict(), **asdict(seen)} for d, seen in course.directions.items()],
            "repeated": course.repeated,
            "epoch": {"batches": course.num_batches, "updates": course.num_batches / course.accumulation},
            "training": {
                "steps": course.num_steps,
                "batches_a_step": course.accumulation,
                "left": self.steps_left,
                "epochs": course.num_epochs,
            },
            "num_parameters": self.num_parameters,
            "trial": self.trial and asdict(self.trial),
            "estimated_seconds": self.trial and self.steps_left * self.trial.seconds,
            "disk": asdict(self.disk),
            "validation": dict(self.validation),
            "warnings": self.warnings(),
        }
