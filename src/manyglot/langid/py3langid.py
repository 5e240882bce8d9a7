"""Loads the py3langid model once per process. This module does not import torch."""

from __future__ import annotations

from functools import cache
from typing import Any


@cache
def load_py3langid() -> Any:
    """Return py3langid's own LanguageIdentifier."""
    from py3langid.langid import MODEL_FILE, LanguageIdentifier  # imported on first use because loading is slow

    return LanguageIdentifier.from_model_file(MODEL_FILE)
