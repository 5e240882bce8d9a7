"""Which codes count as one language when an output is judged: the one table of it.

Regions and scripts are left out (zh-cn, zh-tw and zh-Hant are Chinese, pt-br is Portuguese, fr-ca is French), since no
identifier tells them apart in all cases, and old codes have their present names (iw is he, cmn is zh) by Unicode CLDR.
What is left are languages with codes of their own that identifiers confuse because they are nearly the same.
"""

from __future__ import annotations

from collections.abc import Iterable

from manyglot.corpus.lookup import read_code
from manyglot.corpus.scripts import script_of

VARIANTS = {
    "bs": "sh",  # Bosnian, Croatian, Montenegrin and Serbian: one language with four names
    "cnr": "sh",
    "hr": "sh",
    "sh": "sh",
    "sr": "sh",
    "nb": "no",  # Bokmål and Nynorsk, and Norwegian where nobody says which
    "nn": "no",
    "no": "no",
}
"""What is counted as what, unless `evaluation.merge_variants` is false."""


def label_of(code: str, merge: bool) -> str:
    """What a language is called when outputs are judged, whoever gave the code."""
    known = VARIANTS.get(code) if merge else None
    language = read_code(code).language
    return known or (VARIANTS.get(language, language) if merge else language)


def is_known(code: str, known: Iterable[str], merge: bool) -> bool:
    """Whether an identifier that knows some languages can tell this one, itself or by a variant in the same script.

    Serbian in Cyrillic letters, say, is never told by one that knows only Croatian.
    """
    return any(
        label_of(each, False) == label_of(code, False)
        or (merge and label_of(each, True) == label_of(code, True) and script_of(each) == script_of(code))
        for each in known
    )
