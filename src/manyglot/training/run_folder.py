"""The run folder. It belongs to one experiment: it stores the settings, and a resumed run must match them."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from manyglot.config.base_settings import Settings, are_equal_settings, is_changeable_on_resume
from manyglot.config.yaml_files import format_yaml, read_yaml_mapping
from manyglot.errors import ChangedSettingsError, FolderError, SettingsError
from manyglot.files import (
    check_links,
    nearest_existing_folder,
    os_error_reason,
    read_text,
    unfinished_path,
    write_file,
)
from manyglot.folders import locked_folder
from manyglot.model.model_folder import read_unaltered_settings
from manyglot.model.run_models import list_checkpoints
from manyglot.progress import print_status

CONFIG_NAME, DIGEST_NAME = "config.yaml", "data.sha256"
STOP_MARKER_NAME = "stopped_by_callback"
"""An empty file that the main process leaves if a callback stops training and torchrun would start it again."""
MAX_DIGEST_BYTES = 1024


def check_resumable(run: Path, settings: Settings, data_digest: str) -> None:
    """Raise an error if the folder holds anything but an earlier part of this run.

    Once the run has a checkpoint, only settings marked as changeable on resume may differ. A setting missing from the
    saved settings counts as unchanged.
    """
    if run.is_dir():
        check_links(run)  # the run overwrites and extends its files
    if is_started(run):
        saved = read_saved_settings(run)
        changed = changed_training_settings(saved, settings)
        _check_same_data(run, data_digest)
        if changed:
            saved_value = _describe_saved_value(changed[0], saved)
            raise ChangedSettingsError(
                f"{run} holds a run with different settings ({', '.join(changed)}); {saved_value}. "
                f"Set `run` to another folder, or delete this one.",
                changed,
            )
    elif run.exists() and not _may_become_run_folder(run):
        raise FolderError(f"{run} exists and is not a run folder. Set `run` to another folder.")


def is_started(run: Path) -> bool:
    """Whether a run has a checkpoint or its model, so that it resumes from there or is finished."""
    return (run / "model").exists() or bool(list_checkpoints(run / "checkpoints"))


def _may_become_run_folder(path: Path) -> bool:
    """Whether a path is a run folder, or a folder that is empty but for what a killed process left."""
    if not path.is_dir() or (path / CONFIG_NAME).exists():
        return path.is_dir()
    return all(child == unfinished_path(path / CONFIG_NAME) for child in path.iterdir())


def read_saved_settings(run: Path) -> Mapping[str, Any]:
    """Read the settings of a started run from its newest intact checkpoint, its model or, without them, config.yaml.

    Checkpoints and models have checksums of their settings.
    """
    for folder in (*reversed(list_checkpoints(run / "checkpoints")), run / "model"):
        with suppress(FolderError):
            return read_unaltered_settings(folder)
    try:
        return read_yaml_mapping(run / CONFIG_NAME)
    except SettingsError as error:
        raise FolderError(
            f"{error} No intact checkpoint has the settings either. Set `run` to another folder."
        ) from None


def _check_same_data(run: Path, data_digest: str) -> None:
    """Raise an error unless the data is that of the run."""
    path = run / DIGEST_NAME
    if not path.exists():
        print_status(f"{path} is missing, so the data is not compared with that of the run so far.")
        return
    saved = ""
    with suppress(FolderError):
        saved = read_text(path, MAX_DIGEST_BYTES).strip()
    if not re.fullmatch("[0-9a-f]{64}", saved):
        raise FolderError(f"{path} is damaged. If you are sure that the data is unchanged, delete this file to resume.")
    if saved != data_digest:
        raise ChangedSettingsError(f"{run} was trained on different data. Set `run` to another folder.", ["data"])


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
            for path in (run / DIGEST_NAME, run / CONFIG_NAME):
                if path.exists() and not path.is_file():
                    raise FolderError(f"{path} is not a file. Delete it and run the same command again.")
            write_file(run / CONFIG_NAME, format_yaml(_to_dict(settings)))  # first, because it marks a run folder
            write_file(run / DIGEST_NAME, data_digest + "\n")
        except OSError as error:
            raise FolderError(
                f"Cannot write to {run}: {os_error_reason(error)}. Set `run` to another folder."
            ) from None
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
        elif not are_equal_settings(old, new):
            changed.append(name)
    return changed
