"""The run folder. It belongs to one experiment: it stores the settings, and a resumed run must match them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from manyglot.config.base_settings import Settings, is_changeable_on_resume
from manyglot.config.yaml_files import format_yaml, read_yaml_mapping
from manyglot.errors import FolderError
from manyglot.files import check_links, is_empty_folder, nearest_existing_folder, write_file
from manyglot.folders import locked_folder


def check_resumable(run: Path, settings: Settings, data_digest: str) -> None:
    """Raise an error if the folder holds anything but an earlier part of this run.

    Once the run has a checkpoint, only settings marked as changeable on resume may differ. A setting missing from the
    saved settings counts as unchanged.
    """
    if run.is_dir():
        check_links(run)  # the run overwrites and extends its files
    config_path, digest_path = run / "config.yaml", run / "data.sha256"
    is_started = (run / "model").exists() or any((run / "checkpoints").glob("step-*"))
    if config_path.exists() and is_started:
        saved = read_yaml_mapping(config_path)
        changed = changed_training_settings(saved, settings)
        if digest_path.exists() and digest_path.read_text("utf-8").strip() != data_digest:
            raise FolderError(f"{run} was trained on different data. Set `run` to another folder.")
        if changed:
            saved_value = _describe_saved_value(changed[0], saved)
            raise FolderError(
                f"{run} holds a run with different settings ({', '.join(changed)}); {saved_value}. "
                f"Set `run` to another folder, or delete this one."
            )
    elif not config_path.exists() and run.exists() and not is_empty_folder(run):
        raise FolderError(f"{run} exists and is not a run folder. Set `run` to another folder.")


def changed_training_settings(saved: Mapping[str, Any], settings: Settings) -> list[str]:
    """Return the names of the settings that differ and may not change on resume, because the weights depend on them."""
    changed = _changed_settings(saved, _to_dict(settings))
    return [name for name in changed if not is_changeable_on_resume(settings, name)]


def check_run_writable(run: Path) -> None:
    """Raise an error if `lock_run` would fail: the folder is locked or not writable. Nothing is written."""
    if run.is_dir():
        with locked_folder(run):
            pass
    if not (nearest_existing_folder(run).is_dir() and os.access(nearest_existing_folder(run), os.W_OK)):
        raise FolderError(f"Cannot write to {run}. Set `run` to another folder.")


@contextmanager
def lock_run(run: Path, settings: Settings, data_digest: str) -> Iterator[None]:
    """Lock the run folder for this process and write the settings and the data digest into it."""
    with ExitStack() as stack:
        try:
            stack.enter_context(locked_folder(run))
            (run / "data.sha256").write_text(data_digest + "\n", "utf-8")
            write_file(run / "config.yaml", format_yaml(_to_dict(settings)))
        except OSError as error:
            raise FolderError(f"Cannot write to {run}: {error.strerror}. Set `run` to another folder.") from None
        yield


def _to_dict(settings: Settings) -> dict[str, Any]:
    """Return all settings, including defaults, as JSON values."""
    return settings.model_dump(mode="json")


def _describe_saved_value(name: str, saved: Any) -> str:
    """Say which value the run has for a setting."""
    for key in name.split("."):
        saved = saved.get(key) if isinstance(saved, Mapping) else None
    return f"its {name} is {json.dumps(saved)}"


def _changed_settings(saved: Mapping[str, Any], current: Mapping[str, Any], prefix: str = "") -> list[str]:
    changed = []
    for key in sorted(saved.keys() | current.keys()):
        old, new, name = saved.get(key, current.get(key)), current.get(key), f"{prefix}{key}"
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            changed += _changed_settings(old, new, f"{name}.")
        elif old != new:
            changed.append(name)
    return changed
