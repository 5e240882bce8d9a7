"""The folder of a run belongs to one experiment: its settings are written there first and compared ever after."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import yaml

from manyglot.errors import FolderError
from manyglot.files import held, is_empty, nearest
from manyglot.training.schedule import TO_ZERO

FREE_TO_CHANGE = (
    "data",
    "run",
    "corpus.path",
    "decoding.",
    "evaluation.",
    "validation",
    "training.device",
    "training.shard",
    "training.max_steps",
    "training.log_every",
    "training.validate_every",
    "training.best_by",
    "training.patience",
    "training.checkpoint_every",
    "training.keep_checkpoints",
    "training.keep_best",
    "training.trackers",
)
"""Settings that do not decide the weights of a step, so that a run may go on with others; paths may move. `max_steps`
is one of them unless the learning rate falls to zero there."""


def check_run(run: Path, settings: Mapping[str, Any], data_digest: str) -> None:
    """Refuse a folder that is not this run's: once it has a checkpoint, the settings that matter stay the same.

    A setting that the run's version did not have yet is taken to be as it is now.
    """
    path, digest_path = run / "config.yaml", run / "data.sha256"
    started = (run / "model").exists() or any((run / "checkpoints").glob("step-*"))
    if path.exists() and started:
        old = yaml.safe_load(path.read_text("utf-8")) or {}
        differences = _differences(old, settings)
        free = tuple(name for name in FREE_TO_CHANGE if name != "training.max_steps" or _may_end_elsewhere(settings))
        changed = [name for name in differences if not name.startswith(free)]
        if digest_path.exists() and digest_path.read_text("utf-8").strip() != data_digest:
            raise FolderError(f"{run} was trained on other data than is prepared now. Set `run` to another folder.")
        if changed:
            raise FolderError(
                f"{run} holds a run with other settings ({', '.join(changed)}); {_was(changed[0], old)}. "
                f"Set `run` to another folder, or delete this one."
            )
    elif not path.exists() and run.exists() and not is_empty(run):
        raise FolderError(f"{run} exists and holds something else. Set `run` to another folder.")


def check_writable(run: Path) -> None:
    """Refuse what `claimed_run` could not keep: another process has it, or it cannot be written; nothing is changed."""
    if run.is_dir():
        with held(run):
            pass
    if not (nearest(run).is_dir() and os.access(nearest(run), os.W_OK)):
        raise FolderError(f"Cannot write to {run}. Set `run` to another folder.")


@contextmanager
def claimed_run(run: Path, settings: Mapping[str, Any], data_digest: str) -> Iterator[None]:
    """Keep the run's folder for this process, with the settings written into it."""
    with ExitStack() as stack:
        try:
            stack.enter_context(held(run))
            (run / "data.sha256").write_text(data_digest + "\n", "utf-8")
            new = run / "config.unfinished"
            new.write_text(yaml.safe_dump(dict(settings), sort_keys=False, allow_unicode=True), "utf-8")
            new.replace(run / "config.yaml")
        except OSError as error:
            raise FolderError(f"Cannot write to {run}: {error.strerror}. Set `run` to another folder.") from None
        yield


def _may_end_elsewhere(settings: Mapping[str, Any]) -> bool:
    """Whether the learning rate of a step does not depend on the last one."""
    return settings["training"]["schedule"] not in TO_ZERO


def _was(name: str, settings: Any) -> str:
    """What a setting is in the settings of the run."""
    for key in name.split("."):
        settings = settings.get(key) if isinstance(settings, Mapping) else None
    return f"there, {name} is {json.dumps(settings)}"


def _differences(old: Mapping[str, Any], new: Mapping[str, Any], where: str = "") -> list[str]:
    found = []
    for key in sorted(old.keys() | new.keys()):
        a, b, name = old.get(key, new.get(key)), new.get(key), f"{where}{key}"
        if isinstance(a, Mapping) and isinstance(b, Mapping):
            found += _differences(a, b, f"{name}.")
        elif a != b:
            found.append(name)
    return found
