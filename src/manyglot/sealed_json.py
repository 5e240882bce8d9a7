"""JSON files with a checksum of their own content, so that no changed value goes unnoticed.

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
from manyglot.files import MAX_TEXT_BYTES, read_json_object, write_json

SEAL_KEY = "seal"


def write_sealed_json(path: Path, kind: str, values: Mapping[str, Any]) -> None:
    """Write values as JSON, with the kind of the file and a checksum under `seal`.

    JSON has no infinite numbers, so they become null.
    """
    finite = {key: _without_infinite_numbers(value) for key, value in values.items()}
    seal = {"kind": kind, "keys": list(finite), "sha256": content_sha256(finite)}
    write_json(path, {**finite, SEAL_KEY: seal})


def read_sealed_json(path: Path, kind: str, max_bytes: int = MAX_TEXT_BYTES) -> dict[str, Any]:
    """Read what `write_sealed_json` wrote; raise a FolderError if it is damaged, changed or of another kind."""
    return unseal(read_json_object(path, max_bytes), kind, path)


def unseal(values: Mapping[str, Any], kind: str, path: Path) -> dict[str, Any]:
    """Return the sealed values of a file; raise a FolderError if they do not match their checksum."""
    seal = values.get(SEAL_KEY)
    try:
        sealed = {key: values[key] for key in seal["keys"]}  # type: ignore[index]
        if seal["kind"] == kind and seal["sha256"] == content_sha256(sealed):  # type: ignore[index]
            return sealed
    except (ValueError, TypeError, KeyError):
        pass
    raise FolderError(f"{path} is damaged (its content does not match its checksum).")


def content_sha256(values: Mapping[str, Any]) -> str:
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
