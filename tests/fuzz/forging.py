"""Forged seals: after the damage, checksums and sizes are renewed, as a stranger would do who makes a folder up."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from manyglot.batches.prepared_dataset import DATASET_KIND
from manyglot.checksums import seal_files
from manyglot.errors import FolderError
from manyglot.sealed_json import SEAL_KEY, write_sealed_json
from tests.sealing import forge_model_seals

SEALS = ("dataset.json", "manyglot.json", "format.json")
"""The files that hold seals."""


def forge_seals(folder: Path, originals: Mapping[Path, bytes]) -> None:
    """Renew the seals of a folder, given the undamaged content of its files."""
    if any(path.is_symlink() or path.is_fifo() for path in (folder / name for name in SEALS)):
        return
    if (folder / "dataset.json").is_file():
        _forge_dataset_seals(folder)
    elif (folder / "manyglot.json").is_file():
        _forge_export_seals(folder, originals)
    else:
        with suppress(OSError):
            forge_model_seals(folder)


def _forge_dataset_seals(folder: Path) -> None:
    """Renew the seals of all files that can be read, and the checksum of dataset.json."""
    with suppress(ValueError, RecursionError, AttributeError, TypeError, OSError):
        values = json.loads((folder / "dataset.json").read_bytes())
        for name in values["files"] if isinstance(values.get("files"), dict) else ():
            with suppress(FolderError, ValueError):
                values["files"] |= seal_files(folder, [name])
        values.pop(SEAL_KEY, None)
        write_sealed_json(folder / "dataset.json", DATASET_KIND, values)


def _forge_export_seals(folder: Path, originals: Mapping[Path, bytes]) -> None:
    """Replace the checksums of changed files, and sizes beside them, in the manifest."""
    manifest = folder / "manyglot.json"
    for path, original in originals.items():
        if not path.is_file() or (changed := path.read_bytes()) == original:
            continue
        old, new = (hashlib.sha256(content).hexdigest().encode() for content in (original, changed))
        sealed_size = rb'("size": )%d(,\s*"sha256": "%s")' % (len(original), old)
        text = re.sub(sealed_size, rb"\g<1>%d\g<2>" % len(changed), manifest.read_bytes())
        manifest.write_bytes(text.replace(old, new))
