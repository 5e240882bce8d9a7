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
from manyglot.model.language_pack import PACK_KIND, PACK_NAME
from manyglot.sealed_json import SEAL_KEY, write_sealed_json
from tests.sealing import forge_model_seals

SEALS = ("dataset.json", "manyglot.json", "format.json", PACK_NAME)
"""The files that hold seals."""


def forge_seals(folder: Path, originals: Mapping[Path, bytes]) -> None:
    """Renew the seals of a folder, given the undamaged content of its files."""
    if any(path.is_symlink() or path.is_fifo() for path in (folder / name for name in SEALS)):
        return
    if (folder / "dataset.json").is_file():
        _forge_seals_in(folder / "dataset.json", DATASET_KIND)
    elif (folder / "manyglot.json").is_file():
        _forge_export_seals(folder, originals)
    elif (folder / PACK_NAME).is_file():
        _forge_seals_in(folder / PACK_NAME, PACK_KIND)
    else:
        with suppress(OSError):
            forge_model_seals(folder)


def _forge_seals_in(path: Path, kind: str) -> None:
    """Renew the seals of all files that can be read, and the checksum of the file that holds them."""
    with suppress(ValueError, RecursionError, AttributeError, TypeError, OSError):
        values = json.loads(path.read_bytes())
        for name in values["files"] if isinstance(values.get("files"), dict) else ():
            with suppress(FolderError, ValueError):
                values["files"] |= seal_files(path.parent, [name])
        values.pop(SEAL_KEY, None)
        write_sealed_json(path, kind, values)


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
