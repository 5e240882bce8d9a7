"""Seal damaged folders again, as an attacker would."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

from manyglot.checksums import checksum_sections, seal_files
from manyglot.decoding.ctranslate2.manifest import EXPORTED_FILES, MANIFEST_NAME
from manyglot.errors import FolderError
from manyglot.model.model_folder import seal_model


def forge_model_seals(folder: Path) -> None:
    """Seal a damaged model folder again, if its files can be read."""
    with suppress(FolderError):
        seal_model(folder)


def forge_export_seals(folder: Path, **changes: object) -> None:
    """Change fields of the manifest of an export, and seal the export again."""
    path = folder / MANIFEST_NAME
    values = json.loads(path.read_text("utf-8")) | {"files": seal_files(folder, EXPORTED_FILES)} | changes
    values.pop("checksums", None)
    path.write_text(json.dumps(values | {"checksums": checksum_sections(values)}), encoding="utf-8")
