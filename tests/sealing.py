"""Seal damaged folders again, as an attacker would."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from manyglot.errors import FolderError
from manyglot.model.model_folder import seal_model


def forge_model_seals(folder: Path) -> None:
    """Seal a damaged model folder again, if its files can be read."""
    with suppress(FolderError):
        seal_model(folder)
