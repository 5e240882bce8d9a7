"""Splits text into sentences with sentencex. No other module uses the library.

sentencex follows the principle "when in doubt, do not split". It has rules and abbreviations for many languages, and
general rules for the others. If the language is unknown, the first letter decides where it can: if only one of the
languages uses its script, as in Greek, that language's rules apply.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from itertools import pairwise

import sentencex

from manyglot.corpus.languages import base_language
from manyglot.corpus.scripts import UNICODE_NAME_PREFIXES, language_script_code

_LANGUAGES_WITHOUT_PERIOD_AFTER_ORDINALS = frozenset({"ar", "en", "es", "fr", "hi", "it", "ja", "ko", "nl", "pt", "zh"})
"""Languages in which a period after a short number ends a sentence. In others it may mark an ordinal: `3. Mai`."""
_ENDS_IN_SHORT_NUMBER = re.compile(r"(?<![^\s(])\d{1,2}\.\s+\Z")
_NOT_ASCII_SPACE = re.compile(r"[^\S\x00-\x7f]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_MAX_CHARS_BEFORE_FIRST_LETTER = 50


class SentenceSplitter:
    """Splits text in some languages into sentences."""

    def __init__(self, languages: Iterable[str]) -> None:
        self._languages_by_letter_name: dict[str, set[str]] = {}
        """The languages of each script, by the first word of the Unicode names of its letters."""
        for code in languages:
            for prefix in UNICODE_NAME_PREFIXES.get(language_script_code(code) or "", ()):
                self._languages_by_letter_name.setdefault(prefix, set()).add(code)

    def split(self, text: str, language: str | None = None) -> list[str]:
        """Return the sentences of a text in order, with the white space around them. Joined, they are the text."""
        language = language or self._language_by_script(text)
        code = "" if language is None else base_language(language)
        # sentencex 1.0.32 crashes at an initial after white space beyond ASCII, and rejects surrogates.
        safe_text = _SURROGATE.sub("\ufffd", _NOT_ASCII_SPACE.sub(" ", text))
        has_ordinals = code not in _LANGUAGES_WITHOUT_PERIOD_AFTER_ORDINALS
        ends: list[int] = []
        stop = 0
        for segment in sentencex.segment(code or "mul", safe_text):
            start, stop = stop, stop + len(segment)
            if not any(map(str.isalnum, segment)):  # such as an emoji, which belongs to the sentence before it
                if ends and ends[-1] == start:
                    ends[-1] = stop
            elif not (has_ordinals and _ENDS_IN_SHORT_NUMBER.search(segment)):
                ends.append(stop)
        assert stop == len(text), "sentencex lost text"
        if text and (not ends or ends[-1] < stop):
            ends.append(stop)
        return [text[start:end] for start, end in pairwise([0, *ends])]

    def _language_by_script(self, text: str) -> str | None:
        """Return the only language that uses the script of the first letter, or None if there are several or none."""
        letter = next(filter(str.isalpha, text[:_MAX_CHARS_BEFORE_FIRST_LETTER]), "")
        name = unicodedata.name(letter, "") if letter else ""
        languages = self._languages_by_letter_name.get(name.partition(" ")[0], set())
        return next(iter(languages)) if len(languages) == 1 else None


def count_clear_sentences(sentences: Iterable[str]) -> int:
    """Count sentences. One that begins with a lowercase letter does not count: it may follow an abbreviation."""
    first_characters = (next(filter(str.isalnum, sentence), "") for sentence in sentences if not sentence.isspace())
    return sum(number == 0 or not character.islower() for number, character in enumerate(first_characters))
