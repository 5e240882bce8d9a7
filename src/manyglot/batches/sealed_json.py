"""Sealed JSON files: JSON objects with a checksum of their own content, which reveals every edit."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from manyglot.errors import FolderError
from manyglot.files import read_json_object


def write_sealed_json(path: Path, values: Mapping[str, Any]) -> None:
    """Write an object and its checksum. A kill may leave a part of the file, which is recognized as damaged."""
    sealed = {**values, "sha256": _content_sha256(values)}
    path.write_text(json.dumps(sealed, indent=2) + "\n", encoding="utf-8")


def read_sealed_json(path: Path) -> dict[str, Any]:
    """Read an object that `write_sealed_json` wrote; raise a FolderError if it has changed since."""
    values = read_json_object(path)
    if not is_sealed(values):
        raise FolderError(f"{path} is damaged (its content does not match its checksum).")
    return values


def is_sealed(values: Mapping[str, Any]) -> bool:
    """Whether an object has the checksum of its other values."""
    return values.get("sha256") == _content_sha256({key: values[key] for key in values if key != "sha256"})


def _content_sha256(values: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()
