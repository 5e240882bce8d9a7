"""Opening whatever translates: a model folder of ours with the native engine, an export with its own."""

from __future__ import annotations

import os
from pathlib import Path

from manyglot.decoding.translator import Translator
from manyglot.errors import FolderError, SettingsError, suggest
from manyglot.export.engine import ExportedEngine
from manyglot.export.manifest import is_export

ENGINES = ("auto", "native", "ctranslate2")


def open_translator(folder: str | os.PathLike[str], device: str = "auto", engine: str = "auto") -> Translator:
    """Open a model folder or an export; by its manifest it is told which, unless an engine is asked for."""
    folder = Path(folder)
    if engine not in ENGINES:
        raise SettingsError(f"engine: '{engine}' is not known. {suggest(engine, ENGINES)}")
    if engine == "native" and is_export(folder):
        raise FolderError(f"{folder} is an export for CTranslate2. Give the model folder that it was made from.")
    if engine == "ctranslate2" or (engine == "auto" and is_export(folder)):
        exported = ExportedEngine.load(folder, device)
        return Translator(exported, exported.vocabulary, exported.targets)
    return Translator.load(folder, device)
