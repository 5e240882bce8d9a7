"""Languages and translation directions: sorted codes with explicit ids, and lookup by code or name."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator
from functools import cache, lru_cache
from itertools import permutations
from typing import NamedTuple

from babel import Locale

from manyglot.corpus.language_codes import parse_language_code
from manyglot.corpus.language_lookup import (
    MISSING_ENGLISH_NAMES,
    best_matching_codes,
    codes_spelled_like,
    is_known_language,
    normalize_language_name,
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

        The name may be a code in another style (PT_br, deu_Latn, iw), a code with a script or region that these
        languages do not distinguish (de-DE), or a name in English or in the language itself. Ambiguous names are
        refused with an error that lists the candidates.
        """
        return name if name in self._ids else find_language(name, self.codes)

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
    language = base_language(code)
    return is_known_language(language) or re.fullmatch("q[a-t][a-z]", language) is not None


def check_language_code(code: str) -> str:
    """Return a code, or raise if it does not have the form of a language code (`de`, `deu_Latn`, `pt-br`)."""
    if not looks_like_language_code(code):
        raise LanguageError(f"'{code}' is not a language code such as de, deu or pt-br.")
    return code


def primary_subtag(code: str) -> str:
    """The language part of a code as it is spelled: pt for pt-br, deu for deu_Latn."""
    return code.replace("_", "-").split("-")[0]


def base_language(code: str) -> str:
    """The language of a code of any style as CLDR names it, in two letters if possible: pt for por_Latn_braz1360."""
    return parse_language_code(code).language


@cache
def english_language_name(code: str) -> str:
    """The English name of a language, or its code if CLDR has no name (private-use codes, for example).

    A script is named if the language has a more usual one, or if it is Chinese: Serbian (Latn), Chinese (Hans).
    """
    names = {**Locale("en").languages, **MISSING_ENGLISH_NAMES}
    first, *rest = code.replace("_", "-").split("-")
    spelled, parsed = parse_language_code(first), parse_language_code(code)
    if not parsed.minimal.script and f"{parsed.language}_{parsed.script}" not in names:
        rest = [part for part in rest if not re.fullmatch("[A-Za-z]{4}", part)]
    candidates = (first, f"{spelled.language}_{spelled.region}", parsed.language)
    name = next((str(names[key]) for key in candidates if key in names), first)
    return f"{name} ({'-'.join(rest)})" if rest else name


@lru_cache(maxsize=4096)
def find_language(name: str, codes: tuple[str, ...], owner: str = "the model's languages") -> str:
    """Return the one of some codes that a user means; see `Languages.find_code`. `owner` is for the error message."""
    if name in codes:
        return name
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
        raise LanguageError(f"{missing} is not among {owner}: {', '.join(codes[:MAX_LISTED_NAMES])}{more}.")
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
    """Parse `de>en` or `de→en`; both languages must be among `languages`, named in any style."""
    source, arrow, target = (part.strip() for part in text.replace("→", ">").partition(">"))
    if not arrow or not source or not target:
        raise LanguageError(f"'{shorten(text)}' is not a direction such as de>en.")
    direction = Direction(*(find_language(name, languages.codes, "the languages") for name in (source, target)))
    if direction.source == direction.target:
        raise LanguageError(f"'{shorten(text)}' has the same source and target language. Name two languages.")
    return direction


def enumerate_directions(languages: Languages, central_language: str | None = None) -> list[Direction]:
    """All directions between the languages, or only those to and from a central language."""
    if central_language is not None:
        languages.id(central_language)
    all_directions = (Direction(*pair) for pair in permutations(languages, 2))
    return [direction for direction in all_directions if central_language is None or central_language in direction]
