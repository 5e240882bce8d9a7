"""`manyglot export`: write a model in the format of another engine, or as a model folder of half the size."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from manyglot.errors import SettingsError, suggest
from manyglot.exporters.ctranslate2 import export as export_to_ctranslate2
from manyglot.files import StrPath
from manyglot.model.folder import TrainedModel, load_model, save_model


def export(
    model_folder: StrPath,
    output: StrPath,
    targets: Sequence[str] = (),
    to: str = "ctranslate2",
    quantization: str | None = None,
) -> list[Path]:
    """Write a model for CTranslate2 with some of its target languages, or in half the size; return the folders."""
    if to not in FORMATS:
        raise SettingsError(f"--to: '{to}' is not a format. {suggest(to, FORMATS)}")
    return FORMATS[to](load_model(Path(model_folder)), Path(output), targets, quantization)


def _export_in_half(
    trained: TrainedModel, folder: Path, targets: Sequence[str] = (), quantization: str | None = None
) -> list[Path]:
    """Write a model folder with weights rounded to bfloat16; every command that takes a model folder takes it."""
    if targets:
        raise SettingsError("--target: a model folder has all languages of the model. Leave it out.")
    if quantization not in (None, "bfloat16"):
        raise SettingsError(f"--quantization: a model folder is written in bfloat16, not {quantization}.")
    save_model(folder, trained, torch.bfloat16)
    return [folder]


FORMATS = {"ctranslate2": export_to_ctranslate2, "manyglot": _export_in_half}
"""The formats of `--to`."""
