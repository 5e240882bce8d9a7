"""The script that a language is written in, and the share of a sentence in that script."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence, Set
from functools import cache
from itertools import combinations

from manyglot.corpus.language_codes import parse_language_code

UNICODE_NAME_PREFIXES = {
    "Arab": ("ARABIC",),
    "Armn": ("ARMENIAN",),
    "Beng": ("BENGALI",),
    "Cyrl": ("CYRILLIC",),
    "Deva": ("DEVANAGARI",),
    "Ethi": ("ETHIOPIC",),
    "Geor": ("GEORGIAN",),
    "Grek": ("GREEK",),
    "Gujr": ("GUJARATI",),
    "Guru": ("GURMUKHI",),
    "Hani": ("CJK",),
    "Hans": ("CJK",),
    "Hant": ("CJK",),
    "Hebr": ("HEBREW",),
    "Jpan": ("CJK", "HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA"),
    "Khmr": ("KHMER",),
    "Knda": ("KANNADA",),
    "Kore": ("HANGUL", "CJK"),
    "Laoo": ("LAO",),
    "Latn": ("LATIN", "MODIFIER"),
    "Mlym": ("MALAYALAM",),
    "Mong": ("MONGOLIAN",),
    "Mtei": ("MEETEI",),
    "Mymr": ("MYANMAR",),
    "Nkoo": ("NKO",),
    "Olck": ("OL",),
    "Orya": ("ORIYA",),
    "Sinh": ("SINHALA",),
    "Taml": ("TAMIL",),
    "Telu": ("TELUGU",),
    "Tfng": ("TIFINAGH",),
    "Thai": ("THAI",),
    "Tibt": ("TIBETAN",),
}
"""Maps ISO 15924 script codes to the first words of the Unicode names of their letters."""


@cache
def language_script_code(code: str) -> str | None:
    """The ISO 15924 code of a language's script: as the code names it, or as usual in Unicode CLDR.

    None if the script is not listed above.
    """
    script = parse_language_code(code).with_likely_subtags().script
    return script if script in UNICODE_NAME_PREFIXES else None


def have_different_letters(scripts: Sequence[str]) -> bool:
    """Whether no two of these scripts share letters, as Hans, Hant and Hani do. All must be listed above."""
    letters = [UNICODE_NAME_PREFIXES.get(script) for script in scripts]
    return all(a and b and not set(a) & set(b) for a, b in combinations(letters, 2))


def script_ratio(text: str, script: str) -> float:
    """The share of a text's letters that belong to a script; 1 for text without letters."""
    letters = [character for character in text if character.isalpha()]
    return (
        sum(_unicode_name_prefix(letter) in UNICODE_NAME_PREFIXES[script] for letter in letters) / len(letters)
        if letters
        else 1.0
    )


def may_occur_in(character: str, scripts: Set[str]) -> bool:
    """Whether a character belongs to one of the scripts, or to none of those listed above and is no letter."""
    prefix = _unicode_name_prefix(character)
    listed = [script for script, prefixes in UNICODE_NAME_PREFIXES.items() if prefix in prefixes]
    return not scripts.isdisjoint(listed) if listed else not character.isalpha()


@cache
def _unicode_name_prefix(letter: str) -> str:
    return unicodedata.name(letter, "").split(" ")[0]
