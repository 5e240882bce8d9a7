"""Languages and translation directions: sorted codes with explicit ids, and lookup by code or name."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator
from functools import cache, lru_cache
from itertools import permutations
from typing import NamedTuple

from babel import Locale
from babel.core import get_global

from manyglot.corpus.language_lookup import (
    best_matching_codes,
    codes_spelled_like,
    normalize_language_name,
    parse_language_code,
    possible_languages,
)
from manyglot.errors import MAX_LISTED_NAMES, LanguageError, did_you_mean, shorten

_CODE_PATTERN = re.compile(r"[a-z]{2,3}([-_][A-Za-z0-9]{2,8})*")
_MAX_NAME_LENGTH = 100
_MAX_SUGGESTED_LANGUAGES = 10


class Direction(NamedTuple):
    """A translation direction: source and target language."""

    source: str
    target: str

    def __str__(self) -> str:
        return f"{self.source}→{self.target}"

    def as_setting(self) -> str:
        """The form used in settings, such as de>en."""
        return f"{self.source}>{self.target}"


class Languages:
    """The languages of a corpus or a model: distinct codes in sorted order with ids from 0."""

    def __init__(self, codes: Iterable[str]) -> None:
        self.codes = tuple(sorted(set(codes)))
        for code in self.codes:
            check_language_code(code)
        self._ids = {code: i for i, code in enumerate(self.codes)}

    def id(self, code: str) -> int:
        """Return the id of a language code. An unknown code raises an error that suggests similar ones."""
        if code not in self._ids:
            raise LanguageError(f"Unknown language '{shorten(code)}'. {did_you_mean(code, self.codes)}")
        return self._ids[code]

    def find_code(self, name: str) -> str:
        """Return the code of the language that a user means.

        The name may be a code in another spelling or standard (PT_br, deu, iw), a code with a script or region that
        these languages do not distinguish (de-DE), or a name in English or in the language itself. Ambiguous names are
        refused with an error that lists the candidates.
        """
        return name if name in self._ids else _find_code(name, self.codes)

    def __len__(self) -> int:
        return len(self.codes)

    def __iter__(self) -> Iterator[str]:
        return iter(self.codes)

    def __contains__(self, code: object) -> bool:
        return code in self._ids

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Languages) and self.codes == other.codes

    def __hash__(self) -> int:
        return hash(self.codes)

    def __repr__(self) -> str:
        return f"Languages({', '.join(self.codes)})"


def looks_like_language_code(name: str) -> bool:
    """Whether a string has the form of a language code."""
    return _CODE_PATTERN.fullmatch(name) is not None


def is_known_language_code(code: str) -> bool:
    """Whether CLDR knows the language, or its code is reserved for private use (qaa to qtz)."""
    language = primary_subtag(code)
    return (
        language in Locale("en").languages
        or language in get_global("language_aliases")
        or re.fullmatch("q[a-t][a-z]", language) is not None
    )


def check_language_code(code: str) -> str:
    """Return a code, or raise if it does not have the form of a language code (`de`, `deu`, `pt-br`, `sr-Latn`)."""
    if not looks_like_language_code(code):
        raise LanguageError(f"'{code}' is not a language code such as de, deu or pt-br.")
    return code


def primary_subtag(code: str) -> str:
    """The language part of a code, without region and script: pt for pt-br."""
    return code.replace("_", "-").split("-")[0]


@cache
def english_language_name(code: str) -> str:
    """The English name of a language, or its code if CLDR has no name (private-use codes, for example)."""
    names = Locale("en").languages
    language = primary_subtag(code)
    name = str(names.get(language, language))
    return f"{name} ({code[len(language) + 1 :]})" if language != code else name


@lru_cache(maxsize=4096)
def _find_code(name: str, codes: tuple[str, ...]) -> str:
    if len(name) > _MAX_NAME_LENGTH:
        raise LanguageError(f"Unknown language '{name[:_MAX_NAME_LENGTH]}…'.")
    meanings = possible_languages(name)
    matches = {
        code for meaning in meanings or {parse_language_code(name)} for code in best_matching_codes(meaning, codes)
    }
    candidates = codes_spelled_like(name, codes) or sorted(matches)
    if len(candidates) > 1:
        raise LanguageError(f"'{name}' is ambiguous: {_format_languages(candidates, ' or ')}. Use one of these codes.")
    if not candidates and meanings:
        missing = " or ".join(sorted(f"{english_language_name(str(meaning))} ({meaning})" for meaning in meanings))
        more = f" and {len(codes) - MAX_LISTED_NAMES} more" if len(codes) > MAX_LISTED_NAMES else ""
        raise LanguageError(
            f"{missing} is not among the model's languages: {', '.join(codes[:MAX_LISTED_NAMES])}{more}."
        )
    if not candidates:
        raise LanguageError(f"Unknown language '{name}'. {_nearest_languages_hint(name, codes)}")
    return candidates[0]


def _nearest_languages_hint(name: str, codes: tuple[str, ...]) -> str:
    """Suggest languages with a similar code or name, or list some of the known ones if none is similar."""
    codes_by_word = {
        **{normalize_language_name(english_language_name(code)): code for code in codes},
        **{normalize_language_name(code): code for code in codes},
    }
    similar_words = difflib.get_close_matches(normalize_language_name(name), codes_by_word, n=3)
    if similar := dict.fromkeys(codes_by_word[word] for word in similar_words):
        return f"Did you mean {_format_languages(similar, ' or ')}? {len(codes)} languages are known."
    num_more = len(codes) - _MAX_SUGGESTED_LANGUAGES
    more = f" and {num_more} more" if num_more > 0 else ""
    return f"Known: {_format_languages(codes[:_MAX_SUGGESTED_LANGUAGES], ', ')}{more}."


def _format_languages(codes: Iterable[str], last_separator: str) -> str:
    """Join codes with their names: de (German), nl (Dutch) or da (Danish)."""
    named = [f"{code} ({english_language_name(code)})" for code in codes]
    return last_separator.join(filter(None, (", ".join(named[:-1]), *named[-1:])))


def parse_direction(text: str, languages: Languages) -> Direction:
    """Parse `de>en` or `de→en`; both languages must be among `languages`."""
    source, arrow, target = text.replace("→", ">").partition(">")
    if not arrow or source.strip() == target.strip():
        raise LanguageError(f"'{text}' is not a direction such as de>en.")
    for code in (source.strip(), target.strip()):
        languages.id(code)
    return Direction(source.strip(), target.strip())


def enumerate_directions(languages: Languages, central_language: str | None = None) -> list[Direction]:
    """All directions between the languages, or only those to and from a central language."""
    if central_language is not None:
        languages.id(central_language)
    all_directions = (Direction(*pair) for pair in permutations(languages, 2))
    return [direction for direction in all_directions if central_language is None or central_language in direction]
