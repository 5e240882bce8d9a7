"""Recognizes run folders. This module does not import torch."""

from __future__ import annotations

from pathlib import Path


def is_run_folder(path: Path) -> bool:
    """Whether a folder is the run folder of a training run, finished or not."""
    return any((path / name).exists() for name in ("checkpoints", "data.sha256", "model/format.json"))
