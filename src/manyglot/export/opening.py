"""Opening whatever translates: a model folder of ours with the native engine, an export with its own."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal, get_args

from manyglot.decoding.translator import Translator
from manyglot.errors import FolderError, SettingsError, suggest
from manyglot.export.engine import ExportedEngine
from manyglot.export.manifest import is_export

EngineName = Literal["auto", "native", "ctranslate2"]


def open_translator(
    folder: str | os.PathLike[str], device: str = "auto", engine: EngineName | str = "auto"
) -> Translator:
    """Open a model folder or an export; by its manifest it is told which, unless an engine is asked for."""
    folder = Path(folder)
    if engine not in get_args(EngineName):
        raise SettingsError(f"engine: '{engine}' is not known. {suggest(engine, get_args(EngineName))}")
    if engine == "native" and is_export(folder):
        raise FolderError(f"{folder} is an export for CTranslate2. Give the model folder that it was made from.")
    if engine == "ctranslate2" or (engine == "auto" and is_export(folder)):
        exported = ExportedEngine.load(folder, device)
        return Translator(exported, exported.vocabulary, exported.targets)
    return Translator.load(folder, device)
