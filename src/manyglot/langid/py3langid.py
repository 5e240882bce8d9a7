"""The py3langid package, whose model is loaded once per process. This module does not import torch."""

from __future__ import annotations

from functools import cache
from typing import Any


@cache
def load_py3langid() -> Any:
    """The LanguageIdentifier of py3langid."""
    from py3langid.langid import MODEL_FILE, LanguageIdentifier  # imported on first use: loading takes a moment

    return LanguageIdentifier.from_model_file(MODEL_FILE)
