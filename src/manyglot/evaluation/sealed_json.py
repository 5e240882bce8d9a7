"""JSON files with a checksum of their own content, so that no changed number goes unnoticed.

The checksum covers the values that were written, whatever their order and layout. Users may add keys of their own.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from manyglot.errors import FolderError
from manyglot.files import read_json_object, write_json

SEAL_KEY = "seal"


def write_sealed_json(path: Path, values: Mapping[str, Any]) -> None:
    """Write values as JSON, with the checksum under `seal`. JSON has no infinite numbers, so they become null."""
    finite = {key: _without_infinite_numbers(value) for key, value in values.items()}
    write_json(path, {**finite, SEAL_KEY: {"keys": list(finite), "sha256": _checksum(finite)}})


def read_sealed_json(path: Path, advice: str) -> dict[str, Any]:
    """Read what `write_sealed_json` wrote; raise a FolderError that ends with `advice` if it is damaged or changed."""
    try:
        values = read_json_object(path)
    except FolderError as error:
        raise FolderError(f"{error} {advice}") from None
    seal = values.get(SEAL_KEY)
    try:
        keys, expected = list(seal["keys"]), seal["sha256"]  # type: ignore[index]
        if _checksum({key: values[key] for key in keys}) == expected:
            return {key: values[key] for key in keys}
    except (ValueError, TypeError, KeyError):
        pass
    raise FolderError(f"{path} is damaged: its content does not match its checksum. {advice}")


def _checksum(values: Mapping[str, Any]) -> str:
    """Return the SHA-256 of values; 1 and 1.0 are the same number, as other programs may write either."""
    normalized = json.loads(json.dumps(values), parse_int=float)
    return hashlib.sha256(json.dumps(normalized, sort_keys=True).encode("ascii")).hexdigest()


def _without_infinite_numbers(value: Any) -> Any:
    match value:
        case float():
            return value if math.isfinite(value) else None
        case Mapping():
            return {key: _without_infinite_numbers(each) for key, each in value.items()}
        case list() | tuple():
            return [_without_infinite_numbers(each) for each in value]
    return value
