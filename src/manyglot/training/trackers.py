"""Experiment trackers that receive the log: TensorBoard and Weights & Biases.

A tracker is opened with the step from which a run resumes, so that repeated steps appear only once.
"""

from __future__ import annotations

import importlib
import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, Protocol

from manyglot.config.yaml_files import read_yaml_mapping
from manyglot.errors import FolderError, ManyglotError, SettingsError
from manyglot.files import read_json_object, write_json

TrackerName = Literal["tensorboard", "wandb"]
NON_METRIC_KEYS = ("step", "epoch", "batch", "seconds")


class Tracker(Protocol):
    """Receives the metrics of a run."""

    def log_metrics(self, step: int, metrics: Mapping[str, float]) -> None:
        """Log the metrics of a step."""

    def close(self) -> None:
        """Write or send pending metrics and close the tracker."""


class TensorBoardTracker:
    """Writes event files to `tensorboard` in the run folder; view them with `tensorboard --logdir runs`."""

    def __init__(self, run: Path, step: int) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self.writer: Any = SummaryWriter(run / "tensorboard", purge_step=step + 1)

    def log_metrics(self, step: int, metrics: Mapping[str, float]) -> None:
        """Add a point to each curve."""
        for name, value in metrics.items():
            self.writer.add_scalar(name, value, step)
        self.writer.flush()

    def close(self) -> None:
        """Close the event file."""
        self.writer.close()


class WandBTracker:
    """Logs to a run in the project WANDB_PROJECT, or `manyglot`; `wandb.json` stores its id for resuming.

    W&B cannot delete or amend steps. Steps logged before an interruption stay as they are, so the last of them may lack
    its dev scores.
    """

    def __init__(self, run: Path, step: int) -> None:
        import wandb

        path = run / "wandb.json"
        if step == 0 or not path.exists():
            write_json(path, {"id": secrets.token_hex(8)}, indent=None)
        try:
            self.run: Any = wandb.init(
                project=os.environ.get("WANDB_PROJECT", "manyglot"),
                name=run.name,
                id=_read_run_id(path),
                resume="allow",
                dir=run,
                config=read_yaml_mapping(run / "config.yaml"),
            )
        except wandb.Error as error:  # such as no account or no network
            raise ManyglotError(
                f"Weights & Biases: {str(error).rstrip('.')}. Fix this or remove wandb from training.trackers."
            ) from None

    def log_metrics(self, step: int, metrics: Mapping[str, float]) -> None:
        """Log the metrics of a step unless it was logged before an interruption."""
        if step >= self.run.step:
            self.run.log(dict(metrics), step=step)

    def close(self) -> None:
        """Wait until all metrics are sent."""
        self.run.finish()


def check_trackers_installed(names: Sequence[TrackerName]) -> None:
    """Raise an error if the package of a tracker is not installed."""
    for name in names:
        try:
            importlib.import_module(name)
        except ImportError:
            raise SettingsError(
                f"training.trackers: {name} is not installed. Install it: pip install 'manyglot[{name}]'."
            ) from None


@contextmanager
def open_trackers(names: Sequence[TrackerName], run: Path, step: int) -> Iterator[list[Tracker]]:
    """Open the trackers of a run that starts or resumes after a step; close them at the end of the block."""
    trackers: list[Tracker] = []
    try:
        for name in dict.fromkeys(names):
            trackers.append(TensorBoardTracker(run, step) if name == "tensorboard" else WandBTracker(run, step))
        yield trackers
    finally:
        for tracker in trackers:
            tracker.close()


def flatten_metrics(line: Mapping[str, Any], prefix: str = "") -> dict[str, float]:
    """Flatten the numbers of a log line to names such as `into/de/nll`; drop step, epoch, batch and seconds."""
    metrics: dict[str, float] = {}
    for key, value in line.items():
        if isinstance(value, Mapping):
            metrics |= flatten_metrics(value, f"{prefix}{key}/")
        elif isinstance(value, int | float) and f"{prefix}{key}" not in NON_METRIC_KEYS:
            metrics[prefix + key] = value
    return metrics


def _read_run_id(path: Path) -> str:
    """Read the id of the W&B run."""
    run_id = read_json_object(path).get("id")
    if not isinstance(run_id, str):
        raise FolderError(f"{path} is damaged (it has no id). Delete it to log to a new W&B run.")
    return run_id
