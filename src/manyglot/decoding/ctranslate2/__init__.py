"""Translating with models exported to CTranslate2."""

from __future__ import annotations

from typing import Any

from manyglot.errors import ManyglotError


def import_ctranslate2() -> Any:
    """The ctranslate2 package, an optional dependency."""
    try:
        import ctranslate2
    except ImportError:
        raise ManyglotError(
            "To export a model or to use an exported one, install ctranslate2: pip install 'manyglot[ctranslate2]'."
        ) from None
    return ctranslate2
