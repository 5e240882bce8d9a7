"""`manyglot plot`: draw the curves of runs from their logs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from manyglot.errors import FolderError
from manyglot.files import StrPath
from manyglot.reports.curves import draw_curves
from manyglot.reports.history import History
from manyglot.training.log import read_log


def plot(runs: Sequence[StrPath], output: StrPath, by_tokens: bool = False) -> None:
    """Draw the curves of runs over training steps, or over target tokens."""
    folders = list(dict.fromkeys(map(Path, runs)))
    names = [folder.resolve().name for folder in folders]
    names = names if len(set(names)) == len(folders) else [str(folder) for folder in folders]
    draw_curves({name: _history(run, by_tokens) for name, run in zip(names, folders, strict=True)}, Path(output))


def _history(run: Path, by_tokens: bool) -> History:
    log = run / "log.jsonl"
    if not log.exists():
        parent = f"Did you mean {run.parent}?" if (run.parent / log.name).exists() else "Give the folder of a run."
        raise FolderError(f"{run} has no {log.name}. {parent}")
    history = History(read_log(log), by_tokens)
    if not history.training:
        raise FolderError(f"{log} has no line of training yet; the first comes after training.log_every steps.")
    return history
