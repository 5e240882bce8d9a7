"""Loading a translator: a model folder with the native engine, an export with CTranslate2."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Literal, get_args

from manyglot.decoding.beam import DecodingSettings
from manyglot.decoding.ctranslate2.engine import ExportedEngine
from manyglot.decoding.ctranslate2.manifest import is_export
from manyglot.decoding.translator import Translator
from manyglot.errors import FolderError, SettingsError, suggest
from manyglot.langid.identifier import identify_with
from manyglot.langid.loading import load_identifier
from manyglot.model.folding import fold_if_possible

EngineName = Literal["auto", "native", "ctranslate2"]
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


def load(
    folder: str | os.PathLike[str],
    device: str = "auto",
    engine: EngineName = "auto",
    check_language: bool = False,
) -> Translator:
    """Load a translator from a model folder or from an export for CTranslate2.

    With `check_language`, py3langid identifies every output. One in a wrong language is replaced by an alternative
    in the target language, or marked if there is none.
    """
    folder = Path(folder)
    if engine not in get_args(EngineName):
        raise SettingsError(f"engine: '{engine}' is not known. {suggest(engine, get_args(EngineName))}")
    if engine == "native" and is_export(folder):
        raise FolderError(f"{folder} is an export for CTranslate2. Give the model folder that it was made from.")
    if engine == "ctranslate2" or (engine == "auto" and is_export(folder)):
        exported = ExportedEngine.load(folder, device)
        translator: Translator = ExportTranslator(exported, exported.vocabulary, exported.targets)
    else:
        translator = Translator.load(folder, device, fold_if_possible)
    if not check_language:
        return translator
    return translator.with_off_target_filter(
        identify_with(load_identifier("py3langid", translator.engine.languages, merge_variants=False))
    )
