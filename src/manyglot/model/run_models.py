"""The models of a run folder: the finished model and the checkpoints, which are model folders with further files.

`load_any_model` is what commands call. It takes a model folder, a run folder or a checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from manyglot.checksums import find_altered_file, parse_seals
from manyglot.errors import FolderError
from manyglot.files import read_json, read_json_object
from manyglot.hub import resolve_model
from manyglot.model.model_folder import TrainedModel, load_model, verify_model_files
from manyglot.model.run_paths import is_run_folder
from manyglot.progress import print_status

CHECKPOINT_FILES = ("format.json", "optimizer.safetensors", "progress.json")
"""The files that checksums.json seals. format.json seals the files of the model."""
MAX_PROGRESS_BYTES = 2**24
"""Size limit of progress.json and checksums.json."""


@dataclass(frozen=True)
class BestCheckpoint:
    """A step that ranks among the best of a run."""

    step: int
    metric: str
    """The metric that ranks it."""
    value: float
    sample: Mapping[str, Any]
    """The dev sample that the metric was computed on."""

    def as_training_info(self) -> dict[str, Any]:
        """Return the facts about the selection that a model folder stores."""
        return {"best_metric": self.metric, "value": self.value, "measured_on": dict(self.sample)}


@dataclass(frozen=True)
class RunProgress:
    """How far a run has come, according to its latest intact checkpoint."""

    step: int
    best: tuple[BestCheckpoint, ...]
    """The best steps, best first; empty if no metric selects them."""


def load_any_model(path: Path) -> TrainedModel:
    """Load a model folder, a checkpoint of a run, the model of a run folder, or a model on the hub (`hf://owner/name`).

    A run folder stands for its finished model. If the run is not finished, it stands for its best checkpoint, or the
    last one if no metric selects the best. A damaged checkpoint is skipped. A message names the step.
    """
    path = resolve_model(path)
    if is_checkpoint(path):
        trained = load_model_with_step(path)
        print_status(f"Using the checkpoint of step {trained.training_info['step']:,} in {run_folder_of(path)}.")
        return trained
    if (path / "format.json").exists() or not is_run_folder(path):
        return load_model(path)
    if not (path / "model").exists():
        return _load_best_or_last_checkpoint(path)
    trained = load_model(path / "model")
    which = f", which has the weights of step {step:,}" if (step := trained.training_info.get("step")) else ""
    print_status(f"Using the finished model of {path}{which}.")
    return trained


def load_model_with_step(folder: Path) -> TrainedModel:
    """Load a checkpoint or a model folder; raise an error if it is damaged, or does not record its step."""
    if is_checkpoint(folder) and not folder.exists() and (others := list_checkpoints(folder.parent)):
        raise FolderError(f"{folder} does not exist. The run has {', '.join(other.name for other in others)}.")
    trained = load_model(folder)
    if not {int} == {type(trained.training_info.get(key)) for key in ("step", "steps")}:
        raise FolderError(
            f"{folder / 'training.json'} does not record the training step. The file is missing or damaged."
        )
    return trained


def is_checkpoint(path: Path) -> bool:
    """Whether a path is that of a checkpoint, which may be damaged or missing."""
    folder = path.absolute()
    return (path / "progress.json").exists() or (folder.parent.name, folder.name[:5]) == ("checkpoints", "step-")


def run_folder_of(model_folder: Path) -> Path:
    """Return the run folder that a model folder or a checkpoint is in."""
    parent = model_folder.absolute().parent
    return parent.parent if parent.name == "checkpoints" else parent


def checkpoint_folder(checkpoints: Path, step: int) -> Path:
    """Return the folder of the checkpoint of a step."""
    return checkpoints / f"step-{step:08d}"


def list_checkpoints(checkpoints: Path) -> list[Path]:
    """Return the checkpoints in the folder `checkpoints` of a run, earliest first."""
    return sorted(path for path in checkpoints.glob("step-*") if path.suffix != ".unfinished")


def require_checkpoints(run: Path) -> list[Path]:
    """Return the checkpoints of a run, earliest first; raise an error if there are none."""
    if not run.exists():
        raise FolderError(f"{run} does not exist. Give the `run` folder of an experiment.")
    if paths := list_checkpoints(run / "checkpoints"):
        return paths
    if (run.parent / "checkpoints").is_dir():
        hint = f"Did you mean {run.parent}?"
    elif is_run_folder(run):
        hint = "`manyglot train` writes one every training.checkpoint_every steps."
    else:
        hint = "Give the `run` folder of an experiment."
    raise FolderError(f"{run} has no checkpoints. {hint}")


def iter_intact_checkpoints(paths: Iterable[Path]) -> Iterator[TrainedModel]:
    """Load checkpoints one at a time; a damaged one is reported and skipped."""
    for path in paths:
        if (trained := _try_load(path)) is not None:
            yield trained


def read_run_progress(run: Path) -> RunProgress:
    """Read the step and the best steps of a run from its latest checkpoint whose progress is intact."""
    for path in reversed(list_checkpoints(run / "checkpoints")):
        with suppress(FolderError, OSError, LookupError, TypeError, ValueError):
            return _read_progress(path)
    return RunProgress(0, ())


def verify_checkpoint(folder: Path) -> None:
    """Raise a FolderError if a file of a checkpoint is missing or not as it was saved."""
    _check_checkpoint_files(folder, CHECKPOINT_FILES)
    verify_model_files(folder)


def _check_checkpoint_files(folder: Path, names: Iterable[str]) -> None:
    path = folder / "checksums.json"
    try:
        seals = parse_seals(read_json(path, MAX_PROGRESS_BYTES), CHECKPOINT_FILES)
    except ValueError as error:
        raise FolderError(f"{path} is damaged ({error})") from None
    if (name := find_altered_file(folder, {name: seals[name] for name in names})) is not None:
        raise FolderError(f"{name} is missing, modified or truncated")


def _read_progress(checkpoint: Path) -> RunProgress:
    _check_checkpoint_files(checkpoint, ["progress.json"])
    values = read_json_object(checkpoint / "progress.json", MAX_PROGRESS_BYTES)
    criterion, best = values["best_steps"]["criterion"], []
    for step, metric, value in values["best_steps"]["scores"]:
        sample = criterion["sample_id" if metric == criterion["metric"] else "loss_sample_id"]
        best.append(BestCheckpoint(step, metric, value, sample))
    return RunProgress(values["step"], tuple(best))


def _load_best_or_last_checkpoint(run: Path) -> TrainedModel:
    """Load the best intact checkpoint of an unfinished run, else the last intact one."""
    paths = require_checkpoints(run)
    progress = read_run_progress(run)
    for best in progress.best:
        path = checkpoint_folder(run / "checkpoints", best.step)
        if path in paths and (trained := _try_load(path)) is not None:
            print_status(
                f"{run} is not finished. Using its checkpoint of step {best.step:,}, the best by {best.metric} "
                f"({best.value:.2f}); its last checkpoint is of step {progress.step:,}."
            )
            info = {**trained.training_info, "steps": progress.step, **best.as_training_info()}
            return replace(trained, training_info=info)
        paths = [other for other in paths if other != path]
    for trained in iter_intact_checkpoints(paths[::-1]):
        print_status(f"{run} is not finished. Using its last checkpoint, of step {trained.training_info['step']:,}.")
        return trained
    raise FolderError(f"All checkpoints of {run} are damaged.")


def _try_load(checkpoint: Path) -> TrainedModel | None:
    """Load a checkpoint. If it is damaged, print a warning and return None."""
    try:
        return load_model_with_step(checkpoint)
    except (FolderError, OSError) as error:
        print_status(f"The checkpoint {checkpoint} is damaged and skipped: {error}")
        return None
