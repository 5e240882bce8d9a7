"""`manyglot plot`: plot the learning curves of runs from their logs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from manyglot.argument_types import checks_argument_types
from manyglot.errors import FolderError
from manyglot.evaluation.run_specs import to_run_specs
from manyglot.files import StrPath
from manyglot.reports.displayable import OutputFile
from manyglot.reports.learning_curve_plot import plot_learning_curves
from manyglot.reports.training_history import TrainingHistory
from manyglot.training.training_log import read_log


@checks_argument_types
def plot(runs: StrPath | Sequence[StrPath], output: StrPath = "curves.png", by_tokens: bool = False) -> OutputFile:
    """Plot the learning curves of runs against training steps or target tokens, and return the image file."""
    folders = list(dict.fromkeys(map(Path, to_run_specs(runs))))
    names = [os.path.basename(os.path.realpath(folder)) for folder in folders]
    names = names if len(set(names)) == len(folders) else [str(folder) for folder in folders]
    histories = {name: _read_history(run, by_tokens) for name, run in zip(names, folders, strict=True)}
    plot_learning_curves(histories, Path(output))
    return OutputFile(Path(output))


def _read_history(run: Path, by_tokens: bool) -> TrainingHistory:
    log = run / "log.jsonl"
    if not log.exists():
        nearby = [folder for folder in (run.parent, run / "run") if (folder / log.name).exists()]
        hint = f"Did you mean {nearby[0]}?" if nearby else "Give the folder of a run."
        raise FolderError(f"{run} has no {log.name}. {hint}")
    history = TrainingHistory(read_log(log), by_tokens)
    if not history.has_metric("nll"):
        raise FolderError(f"{log} has no training record with a loss yet. Wait for the first training.log_every steps.")
    return history
