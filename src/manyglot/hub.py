"""Names of models on the Hugging Face hub: hf://owner/name."""

from __future__ import annotations

from pathlib import Path

from manyglot.errors import FolderError
from manyglot.files import StrPath

HUB_PREFIX = "hf://"


def resolve_model(name_or_path: StrPath) -> Path:
    """Return the local folder of a model."""
    if str(name_or_path).startswith(HUB_PREFIX):
        raise FolderError(f"{name_or_path}: models on the hub cannot be opened yet. Download it and give its folder.")
    return Path(name_or_path)
