"""Loads a translator from a model folder or a run (native engine), or from an export (CTranslate2)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Literal, get_args

from manyglot.argument_types import checks_argument_types
from manyglot.decoding.ctranslate2.engine import CTranslate2Engine
from manyglot.decoding.ctranslate2.manifest import is_export_folder
from manyglot.decoding.settings import DecodingSettings
from manyglot.decoding.translator import Translator
from manyglot.errors import FolderError, SettingsError, did_you_mean
from manyglot.hub import resolve_model
from manyglot.langid.identifier import make_off_target_detector
from manyglot.langid.loading import load_identifier
from manyglot.model.run_paths import is_run_folder

EngineName = Literal["auto", "native", "ctranslate2"]
_NO_SAMPLING = "exports do not support sampling. Use the model folder."
UNSUPPORTED_BY_EXPORTS = {
    "precision": "an export computes in its stored type. Export the model again with another --quantization.",
    **dict.fromkeys(("temperature", "top_k", "top_p", "seed"), _NO_SAMPLING),
}
"""Decoding settings that have no effect on an export, and why."""


class CTranslate2Translator(Translator):
    """A translator for an export. It rejects decoding settings that would have no effect."""

    def with_settings(self, **changes: Any) -> Translator:
        """Return a copy with other decoding settings, for example `beam_size=1`."""
        for name, reason in UNSUPPORTED_BY_EXPORTS.items():
            if name in changes and changes[name] != DecodingSettings.model_fields[name].default:
                raise SettingsError(f"decoding.{name}: {reason}")
        return super().with_settings(**changes)


@checks_argument_types
def load(
    folder: str | os.PathLike[str],
    device: str = "auto",
    engine: EngineName = "auto",
    correct_off_target: bool = False,
    packs: Sequence[str | os.PathLike[str]] = (),
) -> Translator:
    """Load a translator from a model folder, a run folder, a checkpoint or an export for CTranslate2.

    `hf://owner/name` is a model on the Hugging Face hub, which is downloaded first. `packs` are language packs, which
    add languages to a model folder.

    A run folder stands for its finished model, or for its best checkpoint if the run is not finished.
    With `correct_off_target`, py3langid identifies every output. An off-target output is replaced by an alternative
    in the target language, or marked if there is none.
    """
    name, folder = str(folder), resolve_model(folder)
    if engine not in get_args(EngineName):
        raise SettingsError(f"engine: '{engine}' is not known. {did_you_mean(engine, get_args(EngineName))}")
    is_export = is_export_folder(folder) and not is_run_folder(folder)  # an export may lie in a run folder
    if engine == "native" and is_export:
        raise FolderError(f"{folder} is an export for CTranslate2. Give the model folder it was made from.")
    if engine == "ctranslate2" or (engine == "auto" and is_export):
        if packs:
            raise SettingsError("An export cannot use language packs. Give the model folder it was made from.")
        exported = CTranslate2Engine.load(folder, device)
        translator: Translator = CTranslate2Translator(
            exported, exported.vocabulary, exported.targets, exported.source_lengths
        )
        translator.origin = name
    else:
        translator = Translator.load(folder, device, fold_guidance=True, packs=packs)
    if not correct_off_target:
        return translator
    return translator.with_off_target_filter(
        make_off_target_detector(
            load_identifier("py3langid", translator.engine.languages, merge_language_variants=False)
        )
    )
