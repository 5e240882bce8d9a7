"""YAML files of settings. A file may extend another file, which its `extends` key names."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from manyglot.config.yaml_files import read_yaml_mapping
from manyglot.errors import SettingsError, shorten

MAX_BASE_CHARS = 200
"""Maximum length of the path of an extended file, which errors quote."""
MAX_EXTENDED_FILES = 50
"""Maximum length of a chain of files that extend each other."""


def read_yaml(path: Path, seen: tuple[Path, ...] = ()) -> dict[str, Any]:
    """Read the settings of a file, merged into those of the file it extends."""
    values = read_yaml_mapping(path)
    base = values.pop("extends", None)
    if base is None:
        return values
    if not isinstance(base, str):
        raise SettingsError(f"{path}: extends should be the path of a file, such as base.yaml.")
    if len(base) > MAX_BASE_CHARS:
        raise SettingsError(f"{path}: extends names the file '{shorten(base)}', whose path is too long.")
    base_path = Path(os.path.realpath(path.parent / base))
    if base_path in seen:
        raise SettingsError(f"{path} extends itself through {base}.")
    if len(seen) == MAX_EXTENDED_FILES:
        raise SettingsError(f"{path} extends more than {MAX_EXTENDED_FILES} files. Join some of them.")
    return merge_settings(read_yaml(base_path, (*seen, base_path)), values)


def merge_settings(base: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Merge nested mappings; replace all other values."""
    merged = dict(base)
    for key, value in changes.items():
        old = merged.get(key)
        merged[key] = merge_settings(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return merged
