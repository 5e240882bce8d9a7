"""Scripts: which one a language is written in, and how much of a sentence is."""

from __future__ import annotations

import unicodedata
from functools import cache

from babel.core import get_global

from manyglot.corpus.languages import primary

NAMES = {
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
    "Mymr": ("MYANMAR",),
    "Orya": ("ORIYA",),
    "Sinh": ("SINHALA",),
    "Taml": ("TAMIL",),
    "Telu": ("TELUGU",),
    "Thai": ("THAI",),
    "Tibt": ("TIBETAN",),
}
"""ISO 15924 codes, and the first words of the names of their letters in Unicode."""


@cache
def script_of(code: str) -> str | None:
    """The script a language is usually written in, by Unicode CLDR; nothing where it is not known here."""
    parts = code.replace("_", "-").split("-")
    named = next((part.title() for part in parts[1:] if part.title() in NAMES), None)
    likely, aliases = get_global("likely_subtags"), get_global("language_aliases")
    language = aliases.get(primary(code), primary(code))  # deu is de
    region = likely.get("_".join([language, *(p.upper() for p in parts[1:] if len(p) == 2)]))
    full = region or likely.get(language, "")
    script = named or next((part for part in full.split("_") if part in NAMES), None)
    return script


def share_in_script(text: str, script: str) -> float:
    """The share of the letters of a text that belong to a script; a text without letters belongs to every script."""
    letters = [character for character in text if character.isalpha()]
    return sum(_name(letter) in NAMES[script] for letter in letters) / len(letters) if letters else 1.0


@cache
def _name(letter: str) -> str:
    return unicodedata.name(letter, "").split(" ")[0]
