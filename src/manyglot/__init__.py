"""Massively multilingual neural machine translation that goes into the right language.

>>> import manyglot
>>> model = manyglot.load("demo-run/run/model")            # doctest: +SKIP
>>> model.translate(["Tuesday, March 5"], to="de")      # doctest: +SKIP
['Dienstag, 5. März']
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from manyglot.decoding.translator import Translator

__version__ = "0.1.0"
__all__ = ["__version__", "load"]


def load(folder: str | os.PathLike[str], device: str = "auto") -> Translator:
    """Load a model folder and return what translates with it."""
    from manyglot.decoding.translator import Translator  # here, so that importing manyglot stays instant

    return Translator.load(folder, device=device)
