"""Massively multilingual neural machine translation that goes into the right language.

>>> import manyglot
>>> model = manyglot.load("demo-run/run/model")            # doctest: +SKIP
>>> model.translate(["Tuesday, March 5"], to="de")         # doctest: +SKIP
['Dienstag, 5. März']
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from manyglot.decoding.translator import Translator

__version__ = "0.1.0"
__all__ = ["__version__", "load"]


def load(
    folder: str | os.PathLike[str],
    device: str = "auto",
    engine: Literal["auto", "native", "ctranslate2"] = "auto",
    check_language: bool = False,
) -> Translator:
    """Load a model folder, or an export for CTranslate2, and return what translates with it.

    With `check_language`, py3langid looks at every output; one in a wrong language is replaced by an alternative in the
    right one, or marked.
    """
    from manyglot.decoding.loading import open_translator  # here, so that importing manyglot stays instant

    translator = open_translator(folder, device, engine)
    if not check_language:
        return translator
    from manyglot.langid.identifier import Py3Langid, identify_with

    return translator.with_check(identify_with(Py3Langid(translator.engine.languages)))
