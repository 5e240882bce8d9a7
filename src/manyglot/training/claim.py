"""The folder of a run belongs to one experiment: its settings are written there first and compared ever after."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import yaml

from manyglot.config.settings import Settings, is_resumable
from manyglot.errors import FolderError
from manyglot.files import held, is_empty, nearest


def check_run(run: Path, settings: Settings, data_digest: str) -> None:
    """Refuse a folder that is not this run's: once it has a checkpoint, only settings marked as resumable may change.

    A setting that the run's version did not have yet is taken to be as it is now.
    """
    path, digest_path = run / "config.yaml", run / "data.sha256"
    started = (run / "model").exists() or any((run / "checkpoints").glob("step-*"))
    if path.exists() and started:
        old = yaml.safe_load(path.read_text("utf-8")) or {}
        changed = [name for name in _differences(old, _plain(settings)) if not is_resumable(settings, name)]
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
def claimed_run(run: Path, settings: Settings, data_digest: str) -> Iterator[None]:
    """Keep the run's folder for this process, with the settings written into it."""
    with ExitStack() as stack:
        try:
            stack.enter_context(held(run))
            (run / "data.sha256").write_text(data_digest + "\n", "utf-8")
            new = run / "config.unfinished"
            new.write_text(yaml.safe_dump(_plain(settings), sort_keys=False, allow_unicode=True), "utf-8")
            new.replace(run / "config.yaml")
        except OSError as error:
            raise FolderError(f"Cannot write to {run}: {error.strerror}. Set `run` to another folder.") from None
        yield


def _plain(settings: Settings) -> dict[str, Any]:
    """All settings, defaults included, as plain values."""
    return settings.model_dump(mode="json")


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
