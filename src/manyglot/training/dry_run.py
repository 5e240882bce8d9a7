"""The result of `train --dry-run`: the data a run would see, its time, memory and disk space, and its run folder."""

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
"""A warning lists directions whose pairs are seen more often than this."""
MAX_NAMED_DIRECTIONS = 5
"""Number of directions that a warning lists."""
MAX_COUNTED_SENTENCES = 2**20
"""Number of sentences per language whose repetitions are counted. Larger languages are subsampled."""


@dataclass(frozen=True)
class DirectionExposure:
    """The data of a direction, and how often a run sees it."""

    num_pairs: int
    num_target_tokens: int
    """Predicted target tokens in all pairs, including EOS, and tags if they are predicted."""
    mean_times_seen: float = 0.0
    """Mean number of times that the whole run sees a pair."""


@dataclass(frozen=True)
class DataSchedule:
    """The data that a run sees from its first step to its last."""

    exposure_by_direction: dict[Direction, DirectionExposure]
    num_batches_per_epoch: int
    """In the first epoch; other epochs differ slightly."""
    gradient_accumulation: int
    num_steps: int
    num_epochs: float
    median_target_repetitions: dict[str, float] = field(default_factory=dict)
    """For targets with several source languages: half of the samples have a target sentence seen this often or more."""

    @classmethod
    def from_loader(
        cls, loader: BatchLoader, directions: Sequence[Direction], settings: TrainingSettings
    ) -> DataSchedule:
        """Count the data in the store and the samples that the batch plan takes from it."""
        plan = loader.plan
        num_epochs, num_seen_D = plan.data_in_first_batches(settings.max_steps * settings.gradient_accumulation)
        mean_times_seen_D = (num_seen_D / plan.sizes_D).tolist()
        values = zip(plan.sizes_D.tolist(), loader.num_target_tokens_by_direction(), mean_times_seen_D, strict=True)
        with_data = {d: DirectionExposure(*v) for d, v in zip(loader.directions, values, strict=True)}
        exposure = {direction: with_data.get(direction, DirectionExposure(0, 0)) for direction in directions}
        repetitions = _median_target_repetitions(plan.index, with_data)
        num_batches, num_steps = plan.num_batches(0), settings.max_steps
        return cls(exposure, num_batches, settings.gradient_accumulation, num_steps, num_epochs, repetitions)

    def warnings(self) -> list[str]:
        """Return warnings about directions seen too often or too rarely, and about an incomplete first epoch."""
        warnings, threshold = [], REPETITION_WARNING_THRESHOLD
        times_seen = {d: exposure.mean_times_seen for d, exposure in self.exposure_by_direction.items()}
        if often := {direction: times for direction, times in times_seen.items() if times > threshold}:
            most_seen = _list_extreme_directions(often, most_first=True)
            warnings.append(f"Directions seen more than {threshold} times: {most_seen}.")
        if repeated := {code: times for code, times in self.median_target_repetitions.items() if times > threshold}:
            code = max(repeated, key=repeated.__getitem__)
            warnings.append(
                f"In half of the samples into {english_language_name(code)}, the target sentence is seen "
                f"{repeated[code]:,.0f} times or more, with sources in several languages, and may be memorized. "
                f"To sample them less often, set batches.target_weights={{{code}: 0.5}}."
            )
        if rarely := {direction: times for direction, times in times_seen.items() if times < 1}:
            warnings.append(f"Directions seen less than once: {_list_extreme_directions(rarely)}.")
        if self.num_epochs < 1:
            warnings.append(f"Training ends within the first epoch, after {self.num_epochs:.1%} of it.")
        return warnings


def _median_target_repetitions(
    index: PairIndex, exposure_by_direction: Mapping[Direction, DirectionExposure]
) -> dict[str, float]:
    """Return, by target language, the median over all samples of how often their target sentence is seen.

    Repetitions are counted over all source languages. A language is left out if most sentences at or above the median
    have a single source: then they are seen as often as their direction, which another warning covers.
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
            sentence = index.pair_indices(direction)[:, 1] - sentences.start
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
    """List the directions that are seen least, or most, and how often each is seen."""
    first = sorted(times, key=lambda direction: times[direction], reverse=most_first)[:MAX_NAMED_DIRECTIONS]
    more = f" and {len(times) - MAX_NAMED_DIRECTIONS} more" if len(times) > MAX_NAMED_DIRECTIONS else ""
    return ", ".join(f"{direction} {times[direction]:,.{0 if most_first else 2}f}×" for direction in first) + more


@dataclass(frozen=True)
class ResumeStatus:
    """Whether and where a run would start or resume."""

    run_folder: str
    status: Literal["new", "resumes", "finished", "refused"]
    step: int = 0
    refusal_reason: str = ""
    """Empty unless the status is refused."""


@dataclass(frozen=True)
class DiskEstimate:
    """The disk space that a run needs."""

    checkpoint_bytes: int
    needed_bytes: int
    """In addition to existing checkpoints: the last and best checkpoints, one being written, and the final model."""
    free_bytes: int

    @classmethod
    def for_run(cls, run: Path, model: nn.Module, settings: TrainingSettings) -> DiskEstimate:
        """Estimate the disk space from the contents of a checkpoint: the weights and two moments per parameter."""
        weight_bytes = sum(tensor.nbytes for tensor in model.state_dict().values())
        checkpoint_bytes = weight_bytes + 2 * sum(parameter.nbytes for parameter in model.parameters())
        existing_bytes = sum(path.stat().st_size for path in (run / "checkpoints").rglob("*") if path.is_file())
        num_checkpoints = settings.keep_last_checkpoints + settings.keep_best_checkpoints
        needed_bytes = (num_checkpoints + 1) * checkpoint_bytes + weight_bytes - existing_bytes
        return cls(checkpoint_bytes, max(needed_bytes, 0), shutil.disk_usage(nearest_existing_folder(run)).free)


@dataclass(frozen=True)
class DryRunResult:
    """Everything that a dry run reports."""

    resume_status: ResumeStatus
    data_schedule: DataSchedule
    num_parameters: int
    step_timing: StepTiming | None
    """None if a step does not fit into memory."""
    disk: DiskEstimate
    validation: Mapping[str, Any]
    """The planned validation, from `Validator.to_dict`."""

    @property
    def num_steps_left(self) -> int:
        """The number of steps from the resumed step to the last."""
        if self.resume_status.status == "finished":
            return 0
        return max(self.data_schedule.num_steps - self.resume_status.step, 0)

    def warnings(self) -> list[str]:
        """Return the warnings about the data and about insufficient disk space."""
        is_full = self.disk.needed_bytes > self.disk.free_bytes and self.num_steps_left
        return [
            *self.data_schedule.warnings(),
            *(["There is not enough disk space for the checkpoints."] if is_full else []),
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return the result as JSON values."""
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
