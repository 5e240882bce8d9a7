"""Overrides of single settings by `--set key=value`."""

from __future__ import annotations

from typing import Any

import yaml

from manyglot.config.yaml_inheritance import YamlLoader
from manyglot.errors import SettingsError


def apply_override(values: dict[str, Any], override: str) -> None:
    """Apply an override such as `training.max_steps=500` to nested plain values, in place."""
    key, equals, text = override.partition("=")
    if not equals or not key:
        raise SettingsError(f"--set takes key=value, such as training.max_steps=500; got {override!r}.")
    try:
        value = yaml.load(text, YamlLoader)
    except yaml.YAMLError:
        raise SettingsError(f"--set {key}: {text!r} is not a YAML value.") from None
    *path, last = key.split(".")
    for part in path:
        if values.get(part) is None:  # an optional section, such as `training.alignment`
            values[part] = {}
        values = values[part]
        if not isinstance(values, dict):
            raise SettingsError(f"--set {key}: {part} is not a section.")
    values[last] = value
