"""Opening whatever translates: a model folder of ours with the native engine, an export with its own."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from manyglot.decoding.beam import DecodingSettings
from manyglot.decoding.ctranslate2.engine import ExportedEngine
from manyglot.decoding.ctranslate2.manifest import is_export
from manyglot.decoding.translator import Translator
from manyglot.errors import FolderError, SettingsError, suggest
from manyglot.model.folding import FoldingError, fold, serves_all_languages
from manyglot.model.transformer import Transformer

ENGINES = ("auto", "native", "ctranslate2")
DRAWING = "an export does not draw words at random. Use the model folder."
WITHOUT_EFFECT = {
    "precision": "an export computes in the type it was written in. Export with another --quantization instead.",
    **dict.fromkeys(("temperature", "top_k", "top_p", "seed"), DRAWING),
}
"""Decoding settings that an export cannot follow, and why."""


class ExportTranslator(Translator):
    """Translates with an export; settings that would change nothing are refused."""

    def with_settings(self, **changes: Any) -> Translator:
        """The same model with other decoding settings, for example `beam=1`."""
        for name, reason in WITHOUT_EFFECT.items():
            if name in changes and changes[name] != DecodingSettings.model_fields[name].default:
                raise SettingsError(f"decoding.{name}: {reason}")
        return super().with_settings(**changes)


def open_translator(folder: str | os.PathLike[str], device: str = "auto", engine: str = "auto") -> Translator:
    """Open a model folder or an export; by its manifest it is told which, unless an engine is asked for."""
    folder = Path(folder)
    if engine not in ENGINES:
        raise SettingsError(f"engine: '{engine}' is not known. {suggest(engine, ENGINES)}")
    if engine == "native" and is_export(folder):
        raise FolderError(f"{folder} is an export for CTranslate2. Give the model folder that it was made from.")
    if engine == "ctranslate2" or (engine == "auto" and is_export(folder)):
        exported = ExportedEngine.load(folder, device)
        return ExportTranslator(exported, exported.vocabulary, exported.targets)
    return Translator.load(folder, device, fold_if_possible)


def fold_if_possible(model: Transformer, language: int) -> Transformer | None:
    """A plain model for one target language, where that saves anything; tags stay with who puts them in."""
    if serves_all_languages(model):
        return None
    try:
        return fold(model, language, tagged=True)
    except FoldingError:
        return None
