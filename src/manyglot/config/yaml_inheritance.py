"""YAML files of settings. A file may extend another file, which its `extends` key names."""

from __future__ import annotations

import re
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import yaml

from manyglot.errors import SettingsError


class YamlLoader(yaml.SafeLoader):
    """A safe loader without two traps of YAML: `no` (Norwegian) and `on` stay strings; duplicate keys are errors."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Raise an error for duplicate keys; plain YAML silently keeps the last one."""
        seen = set()
        for key_node, _ in node.value:
            if key_node.tag != "tag:yaml.org,2002:merge":
                key = self.construct_object(key_node, deep=True)
                if not isinstance(key, Hashable):
                    raise yaml.MarkedYAMLError(None, None, f"{key!r} cannot be a key", key_node.start_mark)
                if key in seen:
                    raise yaml.MarkedYAMLError(None, None, f"{key!r} is given twice", key_node.start_mark)
                seen.add(key)
        return super().construct_mapping(node, deep)


YamlLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:bool"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
YamlLoader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile("(true|false)$"), list("tf"))


def read_yaml(path: Path, seen: tuple[Path, ...] = ()) -> dict[str, Any]:
    """Read the settings of a file, merged into those of the file it extends."""
    try:
        values = yaml.load(path.read_text("utf-8"), YamlLoader)
    except FileNotFoundError:
        raise SettingsError(f"There is no file {path}.") from None
    except OSError as error:
        raise SettingsError(f"Cannot read {path}: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise SettingsError(f"{path} is not UTF-8 text.") from None
    except yaml.YAMLError as error:
        raise SettingsError(f"{path} is not valid YAML: {' '.join(str(error).split())}") from None
    if values is None:
        raise SettingsError(f"{path} is empty.")
    if not isinstance(values, dict):
        raise SettingsError(f"{path} should contain settings such as `seed: 1`, got {type(values).__name__}.")
    base = values.pop("extends", None)
    if base is None:
        return values
    base_path = (path.parent / str(base)).resolve()
    if base_path in seen:
        raise SettingsError(f"{path} extends itself through {base}.")
    return _merge(read_yaml(base_path, (*seen, base_path)), values)


def _merge(base: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Merge nested mappings; replace all other values."""
    merged = dict(base)
    for key, value in changes.items():
        old = merged.get(key)
        merged[key] = _merge(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return merged
