"""A forecast: what a run would see, take and need, worked out from its plan, its folder and a trial."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from torch import nn

from manyglot.batches.loader import BatchLoader
from manyglot.batches.pair_index import PairIndex
from manyglot.corpus.languages import Direction, english_language_name
from manyglot.files import nearest_existing_folder
from manyglot.training.step_timing import StepTiming
from manyglot.training.trainer import TrainingSettings

REPETITION_WARNING_THRESHOLD = 50
"""A direction that is seen more often than this in a run is warned of."""
MAX_NAMED_DIRECTIONS = 5
"""Directions that a warning names."""
MAX_COUNTED_SENTENCES = 2**20
"""Sentences of a language whose repetitions are counted; of more, every second or third and so on stands for all."""


@dataclass(frozen=True)
class DirectionExposure:
    """What a run sees of a direction."""

    num_pairs: int
    num_target_tokens: int
    """Target tokens to predict in all the pairs, tags and ends included where they are predicted."""
    mean_times_seen: float = 0.0
    """How often a pair is seen in the whole run, on average."""


@dataclass(frozen=True)
class DataSchedule:
    """The whole of a run, from its first step to its last."""

    exposure_by_direction: dict[Direction, DirectionExposure]
    num_batches_per_epoch: int
    """Of the first epoch; the others differ little."""
    gradient_accumulation: int
    num_steps: int
    num_epochs: float
    median_target_repetitions: dict[str, float] = field(default_factory=dict)
    """Of languages whose sentences are translated from several: half of the draws are of sentences seen so often."""

    @classmethod
    def from_loader(
        cls, loader: BatchLoader, directions: Sequence[Direction], settings: TrainingSettings
    ) -> DataSchedule:
        """Count what is in the store, and what the plan draws from it."""
        plan = loader.plan
        num_epochs, num_seen_D = plan.data_seen_after(settings.max_steps * settings.gradient_accumulation)
        mean_times_seen_D = (num_seen_D / plan.sizes_D).tolist()
        values = zip(plan.sizes_D.tolist(), loader.num_target_tokens_by_direction(), mean_times_seen_D, strict=True)
        with_data = {d: DirectionExposure(*v) for d, v in zip(loader.directions, values, strict=True)}
        exposure = {direction: with_data.get(direction, DirectionExposure(0, 0)) for direction in directions}
        repetitions = _median_target_repetitions(plan.index, with_data)
        num_batches, num_steps = plan.num_batches(0), settings.max_steps
        return cls(exposure, num_batches, settings.gradient_accumulation, num_steps, num_epochs, repetitions)

    def warnings(self) -> list[str]:
        """Directions that are seen too often or too little, and an end that comes early."""
        warnings, threshold = [], REPETITION_WARNING_THRESHOLD
        times_seen = {d: exposure.mean_times_seen for d, exposure in self.exposure_by_direction.items()}
        if often := {direction: times for direction, times in times_seen.items() if times > threshold}:
            warnings.append(f"Seen more than {threshold} times: {_list_extreme_directions(often, most_first=True)}.")
        if repeated := {code: times for code, times in self.median_target_repetitions.items() if times > threshold}:
            code = max(repeated, key=repeated.__getitem__)
            warnings.append(
                f"Half of what is translated into {english_language_name(code)} is of sentences that are seen "
                f"{repeated[code]:,.0f} times or more, with sources in several languages: they may be learnt by heart "
                f"(batches.target_weights={{{code}: 0.5}} draws less of them)."
            )
        if rarely := {direction: times for direction, times in times_seen.items() if times < 1}:
            warnings.append(f"Not even seen once: {_list_extreme_directions(rarely)}.")
        if self.num_epochs < 1:
            warnings.append(f"The last step ends within the first epoch, after {self.num_epochs:.1%} of it.")
        return warnings


def _median_target_repetitions(
    index: PairIndex, exposure_by_direction: Mapping[Direction, DirectionExposure]
) -> dict[str, float]:
    """The median over the draws into a language of how often their target sentences are seen, whatever the source.

    A direction has a target sentence once. Where most of those above the median have one source only, it is as often as
    their direction is seen, which is told of elsewhere.
    """
    directions_by_target: dict[str, list[Direction]] = {}
    for direction in exposure_by_direction:
        directions_by_target.setdefault(direction.target, []).append(direction)
    medians = {}
    for code, directions in directions_by_target.items():
        if len(directions) == 1:
            continue
        sentences = index.store.sentence_range(code)
        stride = -(-len(sentences) // MAX_COUNTED_SENTENCES)
        num_counted = -(-len(sentences) // stride)
        times_seen, num_sources = np.zeros(num_counted), np.zeros(num_counted, dtype=np.int64)
        for direction in directions:
            sentence = index.pairs_of(direction)[:, 1] - sentences.start
            sentence = sentence[sentence % stride == 0] // stride if stride > 1 else sentence
            times_seen[sentence] += exposure_by_direction[direction].mean_times_seen
            num_sources[sentence] += 1
        ascending = np.sort(times_seen)
        cumulative = np.cumsum(ascending)
        median = float(ascending[np.searchsorted(cumulative, cumulative[-1] / 2)])
        if np.median(num_sources[times_seen >= median]) > 1:
            medians[code] = median
    return medians


def _list_extreme_directions(times: Mapping[Direction, float], *, most_first: bool = False) -> str:
    """The directions at one end, with their numbers."""
    first = sorted(times, key=lambda direction: times[direction], reverse=most_first)[:MAX_NAMED_DIRECTIONS]
    more = f" and {len(times) - MAX_NAMED_DIRECTIONS} more" if len(times) > MAX_NAMED_DIRECTIONS else ""
    return ", ".join(f"{direction} {times[direction]:,.{0 if most_first else 2}f}×" for direction in first) + more


@dataclass(frozen=True)
class ResumeStatus:
    """Where a run would begin."""

    run_folder: str
    status: Literal["new", "resumes", "finished", "refused"]
    step: int = 0
    refusal_reason: str = ""
    """Why it is refused."""


@dataclass(frozen=True)
class DiskEstimate:
    """The bytes that a run needs."""

    checkpoint_bytes: int
    needed_bytes: int
    """Beside what is there: the last and the best checkpoints, another while it is written, and the model."""
    free_bytes: int

    @classmethod
    def for_run(cls, run: Path, model: nn.Module, settings: TrainingSettings) -> DiskEstimate:
        """From what a checkpoint holds: the weights, and two moments of each."""
        weight_bytes = sum(tensor.nbytes for tensor in model.state_dict().values())
        checkpoint_bytes = weight_bytes + 2 * sum(parameter.nbytes for parameter in model.parameters())
        existing_bytes = sum(path.stat().st_size for path in (run / "checkpoints").rglob("*") if path.is_file())
        num_checkpoints = settings.keep_last_checkpoints + settings.keep_best_checkpoints
        needed_bytes = (num_checkpoints + 1) * checkpoint_bytes + weight_bytes - existing_bytes
        return cls(checkpoint_bytes, max(needed_bytes, 0), shutil.disk_usage(nearest_existing_folder(run)).free)


@dataclass(frozen=True)
class DryRunResult:
    """All that can be said of a run before it begins."""

    resume_status: ResumeStatus
    data_schedule: DataSchedule
    num_parameters: int
    step_timing: StepTiming | None
    """Nothing where a step does not fit into the memory."""
    disk: DiskEstimate
    validation: Mapping[str, Any]
    """What would be measured now and then; see `Validator.to_dict`."""

    @property
    def num_steps_left(self) -> int:
        """Steps that are still to be done."""
        if self.resume_status.status == "finished":
            return 0
        return max(self.data_schedule.num_steps - self.resume_status.step, 0)

    def warnings(self) -> list[str]:
        """What one would want to know before it is too late."""
        is_full = self.disk.needed_bytes > self.disk.free_bytes and self.num_steps_left
        return [
            *self.data_schedule.warnings(),
            *(["The disk has not enough space for the checkpoints."] if is_full else []),
        ]

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        schedule = self.data_schedule
        return {
            "run": asdict(self.resume_status),
            "directions": [
                {**d._asdict(), **asdict(exposure)} for d, exposure in schedule.exposure_by_direction.items()
            ],
            "median_target_repetitions": schedule.median_target_repetitions,
            "epoch": {
                "batches": schedule.num_batches_per_epoch,
                "updates": schedule.num_batches_per_epoch / schedule.gradient_accumulation,
            },
            "training": {
                "steps": schedule.num_steps,
                "batches_per_step": schedule.gradient_accumulation,
                "steps_left": self.num_steps_left,
                "epochs": schedule.num_epochs,
            },
            "num_parameters": self.num_parameters,
            "step_timing": self.step_timing and asdict(self.step_timing),
            "estimated_seconds": self.step_timing and self.num_steps_left * self.step_timing.seconds_per_step,
            "disk": asdict(self.disk),
            "validation": dict(self.validation),
            "warnings": self.warnings(),
        }
