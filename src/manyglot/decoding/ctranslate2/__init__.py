"""Translation with models exported to CTranslate2."""

from __future__ import annotations

from typing import Any

from manyglot.errors import ManyglotError


def import_ctranslate2() -> Any:
    """Return the ctranslate2 package, an optional dependency, or raise an error that says how to install it."""
    try:
        import ctranslate2
    except ImportError:
        raise ManyglotError(
            "Install ctranslate2 to export models or to use exports: pip install 'manyglot[ctranslate2]'."
        ) from None
    return ctranslate2
