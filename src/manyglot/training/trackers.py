"""Where the lines of the log go as well: TensorBoard and Weights & Biases.

Each tracker opens with the step that a run goes on from, so that steps which are taken again are shown once.
"""

from __future__ import annotations

import importlib
import json
import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, Protocol

import yaml

from manyglot.errors import ManyglotError, SettingsError

TrackerName = Literal["tensorboard", "wandb"]
NON_METRIC_KEYS = ("step", "epoch", "batch", "seconds")


class Tracker(Protocol):
    """Shows the numbers of a run."""

    def log_metrics(self, step: int, metrics: Mapping[str, float]) -> None:
        """Take the numbers of a step."""

    def close(self) -> None:
        """Hand over what is still to be written."""


class TensorBoardTracker:
    """Event files in the run's folder `tensorboard`; see them with `tensorboard --logdir runs`."""

    def __init__(self, run: Path, step: int) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self.writer: Any = SummaryWriter(run / "tensorboard", purge_step=step + 1)

    def log_metrics(self, step: int, metrics: Mapping[str, float]) -> None:
        """Add a point to each curve."""
        for name, value in metrics.items():
            self.writer.add_scalar(name, value, step)
        self.writer.flush()

    def close(self) -> None:
        """Close the file."""
        self.writer.close()


class WandBTracker:
    """A run in the project that WANDB_PROJECT names, or in `manyglot`; `wandb.json` keeps its id for going on.

    W&B forgets no step. What was shown before an interruption stays, and a dev score that its last step still lacked
    stays away.
    """

    def __init__(self, run: Path, step: int) -> None:
        import wandb

        path = run / "wandb.json"
        if step == 0 or not path.exists():
            path.write_text(json.dumps({"id": secrets.token_hex(8)}) + "\n", encoding="utf-8")
        try:
            self.run: Any = wandb.init(
                project=os.environ.get("WANDB_PROJECT", "manyglot"),
                name=run.name,
                id=json.loads(path.read_text("utf-8"))["id"],
                resume="allow",
                dir=run,
                config=yaml.safe_load((run / "config.yaml").read_text("utf-8")),
            )
        except wandb.Error as error:  # no account, no network …
            raise ManyglotError(
                f"Weights & Biases: {str(error).rstrip('.')}. Or take wandb out of training.trackers."
            ) from None

    def log_metrics(self, step: int, metrics: Mapping[str, float]) -> None:
        """Add a point to each curve, unless the step was shown before the run was interrupted."""
        if step >= self.run.step:
            self.run.log(dict(metrics), step=step)

    def close(self) -> None:
        """Wait until all is sent."""
        self.run.finish()


def check_trackers_installed(names: Sequence[TrackerName]) -> None:
    """Refuse a tracker that is not installed."""
    for name in names:
        try:
            importlib.import_module(name)
        except ImportError:
            raise SettingsError(
                f"training.trackers: {name} is not installed. Install it: pip install 'manyglot[{name}]'."
            ) from None


@contextmanager
def open_trackers(names: Sequence[TrackerName], run: Path, step: int) -> Iterator[list[Tracker]]:
    """Trackers of a run that goes on after a step."""
    trackers: list[Tracker] = []
    try:
        for name in dict.fromkeys(names):
            trackers.append(TensorBoardTracker(run, step) if name == "tensorboard" else WandBTracker(run, step))
        yield trackers
    finally:
        for tracker in trackers:
            tracker.close()


def flatten_metrics(line: Mapping[str, Any], prefix: str = "") -> dict[str, float]:
    """The numbers of a line of the log under names such as `into/de/nll`, but for those that only say where it is."""
    metrics: dict[str, float] = {}
    for key, value in line.items():
        if isinstance(value, Mapping):
            metrics |= flatten_metrics(value, f"{prefix}{key}/")
        elif isinstance(value, int | float) and f"{prefix}{key}" not in NON_METRIC_KEYS:
            metrics[prefix + key] = value
    return metrics
