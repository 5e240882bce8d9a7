"""Overrides of single settings by `--set key=value`."""

from __future__ import annotations

import reprlib
from typing import Any

import yaml

from manyglot.config.yaml_files import parse_yaml
from manyglot.errors import SettingsError, shorten


def apply_override(values: dict[str, Any], override: str) -> None:
    """Apply an override such as `training.max_steps=500` to nested plain values, in place."""
    key, equals, text = override.partition("=")
    if not equals or not key:
        raise SettingsError(f"--set takes key=value, such as training.max_steps=500; got {reprlib.repr(override)}.")
    try:
        value = parse_yaml(text)
    except yaml.YAMLError as error:
        raise SettingsError(f"--set {shorten(key)}: the value is not valid YAML: {error}.") from None
    *path, last = key.split(".")
    for part in path:
        if values.get(part) is None:  # an optional section, such as `training.alignment`
            values[part] = {}
        values = values[part]
        if not isinstance(values, dict):
            raise SettingsError(f"--set {shorten(key)}: {shorten(part)} is not a section.")
    values[last] = value
