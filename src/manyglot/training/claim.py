"""The folder of a run belongs to one experiment: its settings are written there first and compared ever after."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from manyglot.errors import FolderError

FREE_TO_CHANGE = (
    "decoding.",
    "evaluation.",
    "training.device",
    "training.log_every",
    "training.validate_every",
    "training.checkpoint_every",
    "training.keep_checkpoints",
)
"""Settings that do not decide the weights, so that a run may go on with others."""


def claim_run(run: Path, settings: Mapping[str, Any]) -> None:
    """Write the settings into the run's folder, or check that they are the ones it was started with."""
    path = run / "config.yaml"
    if path.exists():
        differences = _differences(yaml.safe_load(path.read_text("utf-8")), settings)
        changed = [name for name in differences if not name.startswith(FREE_TO_CHANGE)]
        if changed:
            raise FolderError(
                f"{run} holds a run with other settings ({', '.join(changed)}). "
                f"Set `run` to another folder, or delete this one."
            )
    elif run.exists() and any(run.iterdir()):
        raise FolderError(f"{run} exists and holds something else. Set `run` to another folder.")
    try:
        run.mkdir(parents=True, exist_ok=True)
        path.write_text(yaml.safe_dump(dict(settings), sort_keys=False, allow_unicode=True), "utf-8")
    except OSError as error:
        raise FolderError(f"Cannot write to {run}: {error.strerror}. Set `run` to another folder.") from None


def _differences(old: Mapping[str, Any], new: Mapping[str, Any], where: str = "") -> list[str]:
    found = []
    for key in sorted(old.keys() | new.keys()):
        a, b, name = old.get(key), new.get(key), f"{where}{key}"
        if isinstance(a, Mapping) and isinstance(b, Mapping):
            found += _differences(a, b, f"{name}.")
        elif a != b:
            found.append(name)
    return found
