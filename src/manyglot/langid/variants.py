"""Merge the codes that count as the same language when outputs are identified.

Regions are ignored, because no identifier separates them reliably: pt-br is Portuguese, fr-ca is French. So are
scripts, unless the data has a language in several scripts (see `labels.py`): zh-cn, zh-tw and zh-Hant are Chinese.
Deprecated codes are replaced as in Unicode CLDR (iw becomes he, cmn becomes zh). The table below merges languages that
have codes of their own but are too similar for identifiers.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from manyglot.corpus.language_codes import ALSO_WRITTEN_IN_LATIN, parse_language_code
from manyglot.corpus.scripts import have_different_letters, language_script_code

MERGED_LABELS = {
    "bs": "sh",  # Bosnian, Croatian, Montenegrin and Serbian
    "cnr": "sh",
    "hr": "sh",
    "sh": "sh",
    "sr": "sh",
    "ak": "ak",  # Akan and Twi
    "tw": "ak",
    "nb": "no",  # Bokmål, Nynorsk, and Norwegian of unspecified standard
    "nn": "no",
    "no": "no",
}
"""The common label of near-identical languages, unless `evaluation.merge_language_variants` is false."""


@lru_cache(maxsize=2**14)
def language_label(code: str, merge_language_variants: bool) -> str:
    """Return the label by which a language code is compared; region and script are dropped."""
    merged = MERGED_LABELS.get(code) if merge_language_variants else None
    language = parse_language_code(code).language
    return merged or (MERGED_LABELS.get(language, language) if merge_language_variants else language)


def is_identifiable(code: str, identifier_codes: Iterable[str], merge_language_variants: bool) -> bool:
    """Whether an identifier with these codes can identify a language, directly or as a variant in the same script.

    For example, an identifier that knows only Croatian cannot identify Serbian in Cyrillic script, and one that knows
    Arabic cannot identify romanized Arabic.
    """
    return any(
        (language_label(known, False) == language_label(code, False) and _may_have_script_of(known, code))
        or (
            merge_language_variants
            and language_label(known, True) == language_label(code, True)
            and language_script_code(known) == language_script_code(code)
        )
        for known in identifier_codes
    )


@lru_cache(maxsize=2**14)
def _may_have_script_of(known: str, code: str) -> bool:
    """Whether the text that an identifier calls `known` may be in the script of another code of the language."""
    scripts = [parse_language_code(each).with_likely_subtags().script for each in (known, code)]
    is_in_any_script = (
        parse_language_code(known).language in ALSO_WRITTEN_IN_LATIN and not parse_language_code(known).script
    )
    return is_in_any_script or not have_different_letters(scripts)
