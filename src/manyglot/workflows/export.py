"""`manyglot export`: write a model in the format of another engine, or as a model folder of half the size."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from manyglot.argument_types import checks_argument_types
from manyglot.errors import SettingsError, did_you_mean
from manyglot.exporters.ctranslate2 import export_to_ctranslate2
from manyglot.exporters.hf_transformers import export_to_transformers
from manyglot.exporters.model_scores import find_scores
from manyglot.exporters.onnx.export import export_to_onnx
from manyglot.files import StrPath
from manyglot.model.model_folder import TrainedModel, save_model
from manyglot.model.run_models import load_any_model
from manyglot.vocabulary.sentencepiece_model import SentencePieceModel


@checks_argument_types
def export(
    model_folder: StrPath,
    output: StrPath,
    targets: str | Sequence[str] = (),
    export_format: str = "ctranslate2",
    quantization: str | None = None,
) -> list[Path]:
    """Write a model in another format and return the folders.

    The model is a model folder, a run folder or a checkpoint. `targets` are languages, or one text such as `de,fr`.
    `ctranslate2` writes an export for the CTranslate2 engine, and `transformers` writes a model that the transformers
    library loads, both with the given target languages. `onnx` writes graphs for ONNX Runtime with all target
    languages, and a program that runs them. `manyglot` writes a model folder with bfloat16 weights, which is half the
    size.
    """
    names = [targets] if isinstance(targets, str) else targets
    codes = [code.strip() for name in names for code in name.split(",") if code.strip()]
    if export_format not in EXPORTERS:
        raise SettingsError(f"--to: '{export_format}' is not a format. {did_you_mean(export_format, EXPORTERS)}")
    trained = load_any_model(Path(model_folder))
    if export_format in SENTENCEPIECE_FORMATS and trained.vocabulary.subword_model.kind != SentencePieceModel.kind:
        raise SettingsError(
            f"--to: {export_format} needs a SentencePiece model with its own numbering, which imported models do not "
            f"have. Use --to ctranslate2, or the folder that was imported."
        )
    return EXPORTERS[export_format](trained, Path(output), codes, quantization)


def _export_bfloat16(
    trained: TrainedModel, folder: Path, targets: Sequence[str] = (), quantization: str | None = None
) -> list[Path]:
    """Write a model folder with weights rounded to bfloat16. Every command that takes a model folder accepts it."""
    if targets:
        raise SettingsError("--target: a model folder always has all languages of the model. Remove the option.")
    if quantization not in (None, "bfloat16"):
        raise SettingsError(
            f"--quantization: --to manyglot always writes bfloat16, not {quantization}. Remove the option."
        )
    save_model(folder, trained, torch.bfloat16, find_scores(trained))
    return [folder]


EXPORTERS = {
    "ctranslate2": export_to_ctranslate2,
    "transformers": export_to_transformers,
    "onnx": export_to_onnx,
    "manyglot": _export_bfloat16,
}
"""The export function of each format of `--to`."""
SENTENCEPIECE_FORMATS = ("transformers", "onnx")
"""Formats whose tokenizer is made from a SentencePiece model."""
