"""A model folder of half the size: the same model, its weights rounded to bfloat16."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from manyglot.errors import SettingsError
from manyglot.model.folder import TrainedModel, save_model


def export_half(
    trained: TrainedModel, folder: Path, targets: Sequence[str] = (), quantization: str | None = None
) -> list[Path]:
    """Write it; it has all languages, and everything that takes a model folder takes it."""
    if targets:
        raise SettingsError("--target: a model folder has all languages of the model. Leave it out.")
    if quantization not in (None, "bfloat16"):
        raise SettingsError(f"--quantization: a model folder is written in bfloat16, not {quantization}.")
    save_model(folder, trained, torch.bfloat16)
    return [folder]
