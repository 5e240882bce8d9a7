"""Seals of files: their sizes and SHA-256 checksums, stored in the metadata of a folder.

A size reveals a truncated file at once; a checksum reveals every other change. A file that users may edit in part, such
as settings, has a checksum for each of its sections instead.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from manyglot.errors import FolderError
from manyglot.files import open_regular_file

CHUNK_BYTES = 2**22
_SHA256 = re.compile("[0-9a-f]{64}")


class FileSeal(NamedTuple):
    """The size and the checksum of a file."""

    size: int
    sha256: str

    @classmethod
    def of(cls, path: Path, on_bytes: Callable[[int], None] = lambda num_bytes: None) -> FileSeal:
        """Compute the seal of a file; `on_bytes` is called with the number of bytes of each chunk."""
        digest, size = hashlib.sha256(), 0
        with open_regular_file(path) as file:
            while chunk := file.read(CHUNK_BYTES):
                digest.update(chunk)
                size += len(chunk)
                on_bytes(len(chunk))
        return cls(size, digest.hexdigest())

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return self._asdict()


def file_sha256(path: Path) -> str:
    """Return the SHA-256 checksum of a file."""
    return FileSeal.of(path).sha256


def seal_files(folder: Path, names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Return the seals of files in a folder as plain values."""
    return {name: FileSeal.of(folder / name).to_dict() for name in names}


def parse_seals(values: Any, required: Iterable[str]) -> dict[str, FileSeal]:
    """Parse what `seal_files` returned; raise a ValueError unless every required file has a valid seal."""
    if not isinstance(values, Mapping):
        raise ValueError("the checksums are missing")
    seals = {}
    for name in dict.fromkeys((*required, *values)):
        seal = values.get(name)
        if not (
            isinstance(seal, Mapping)
            and type(seal.get("size")) is int
            and isinstance(seal.get("sha256"), str)
            and _SHA256.fullmatch(seal["sha256"])
        ):
            raise ValueError(f"the checksum of {name!r:.100} is missing or damaged")
        seals[name] = FileSeal(seal["size"], seal["sha256"])
    return seals


def find_wrong_size(folder: Path, seals: Mapping[str, FileSeal]) -> str | None:
    """Return the first file that is missing or does not have the size of its seal."""
    for name, seal in seals.items():
        try:
            if (folder / name).stat().st_size != seal.size:
                return name
        except OSError:
            return name
    return None


def find_altered_file(
    folder: Path, seals: Mapping[str, FileSeal], on_bytes: Callable[[int], None] = lambda num_bytes: None
) -> str | None:
    """Return the first file that is missing or does not match its seal. This reads all files."""
    for name, seal in seals.items():
        try:
            if FileSeal.of(folder / name, on_bytes) != seal:
                return name
        except FolderError:
            return name
    return None


def checksum_sections(values: Mapping[str, Any]) -> dict[str, str]:
    """Return the SHA-256 checksum of each value of a mapping of JSON values, whatever the order of their keys."""
    return {
        name: hashlib.sha256(json.dumps(value, sort_keys=True).encode("ascii")).hexdigest()
        for name, value in values.items()
    }


def parse_section_checksums(values: Any, required: Iterable[str]) -> dict[str, str]:
    """Parse what `checksum_sections` returned; raise a ValueError unless every required section has a checksum."""
    if not isinstance(values, Mapping):
        raise ValueError("the checksums are missing")
    for name in dict.fromkeys((*required, *values)):
        if not isinstance(values.get(name), str) or not _SHA256.fullmatch(values[name]):
            raise ValueError(f"the checksum of {name!r:.100} is missing or damaged")
    return dict(values)


def find_altered_sections(values: Mapping[str, Any], checksums: Mapping[str, str]) -> list[str]:
    """Return the names of the sections that were changed, added or removed."""
    current = checksum_sections(values)
    return [name for name in dict.fromkeys((*checksums, *current)) if checksums.get(name) != current.get(name)]
