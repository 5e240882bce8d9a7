"""Export to ONNX: the graphs of encoder and decoder for all target languages, and a program that runs them."""

from __future__ import annotations

from typing import Any

from manyglot.errors import ManyglotError


def import_onnx() -> Any:
    """Return the onnx package, an optional dependency, or raise an error that says how to install it."""
    try:
        import onnx
    except ImportError:
        raise ManyglotError("Install onnx to export models to ONNX: pip install 'manyglot[onnx]'.") from None
    return onnx
