"""Find the language that a user means by a code of any style, or by a name in English or in the language itself.

A name is replaced by its CLDR code. A code is then matched against the available codes (see `language_codes.py`).
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator
from functools import cache

from babel import Locale, localedata
from babel.core import get_global

from manyglot.corpus.language_codes import ParsedLanguageCode, parse_language_code

_RELATED_LANGUAGES = {"ak": ("tw",), "apc": ("ajp",), "no": ("nb", "nn")}
"""Languages that CLDR does not list as macrolanguages, with their members. The code usually means the first member."""

_EXTRA_ENGLISH_NAMES = {
    "bokmål": "nb",
    "castilian": "es",
    "farsi": "fa",
    "kirghiz": "ky",
    "mandarin": "zh",
    "moldovan": "ro",
    "myanmar": "my",
    "oriya": "or",
    "uighur": "ug",
}
"""More English names of languages that CLDR names otherwise."""

MISSING_ENGLISH_NAMES = {
    "acm": "Mesopotamian Arabic",
    "acq": "Taʽizzi-Adeni Arabic",
    "ajp": "South Levantine Arabic",
    "apc": "Levantine Arabic",
    "azb": "South Azerbaijani",
    "cjk": "Chokwe",
    "fuv": "Nigerian Fulfulde",
    "hne": "Chhattisgarhi",
    "kbp": "Kabiyè",
    "ktu": "Kituba",
    "lld": "Ladin",
    "mey": "Hassaniya Arabic",
    "taq": "Tamasheq",
    "uzs": "Southern Uzbek",
}
"""Names of languages that CLDR lacks; these are the ones in FLORES+ and NTREX-128."""


def possible_languages(name: str) -> set[ParsedLanguageCode]:
    """All languages that a code or name may mean according to CLDR; empty if CLDR does not know it.

    A known code takes precedence over a name: ga is Irish, although a language Ga exists.
    """
    code = parse_language_code(name.strip())
    return {code} if is_known_language(code.language) else _languages_by_name(name)


def is_known_language(language: str) -> bool:
    """Whether the language part of a parsed code is the code of a known language."""
    return (
        language in Locale("en").languages
        or language in MISSING_ENGLISH_NAMES
        or language in get_global("language_aliases").values()
    )


def best_matching_codes(wanted: ParsedLanguageCode, codes: Iterable[str]) -> list[str]:
    """The available codes that match the wanted one best: one code, several equally good ones, or none.

    Script and region matter where the available codes differ in them. A code that is less specific than the wanted one
    matches it. A more specific code matches if it is the only one, or if it only adds the usual script.
    """
    same_language = [code for code in codes if parse_language_code(code).language == wanted.language]
    if not same_language:
        related = _related_languages(wanted.language)
        same_language = [code for code in codes if parse_language_code(code).language in related]
    compatible = [code for code in same_language if not parse_language_code(code).contradicts(wanted)]
    ranks = {code: _match_rank(parse_language_code(code), wanted) for code in compatible}
    return [code for code in compatible if ranks[code] == max(ranks.values())]


def codes_spelled_like(name: str, codes: Iterable[str]) -> list[str]:
    """The available codes that equal a name except for case and separators."""
    return [code for code in codes if _normalize_spelling(code) == _normalize_spelling(name)]


def _normalize_spelling(code: str) -> str:
    return code.strip().replace("_", "-").casefold()


def usual_member(language: str) -> str:
    """The member that the code of a macrolanguage usually means: nb for no; other languages are returned unchanged."""
    return _RELATED_LANGUAGES.get(language, (language,))[0]


def _related_languages(language: str) -> set[str]:
    """The members of a macrolanguage, or the macrolanguages whose code usually means this language."""
    return {
        *_RELATED_LANGUAGES.get(language, ()),
        *(macro for macro, members in _RELATED_LANGUAGES.items() if members[0] == language),
    }


def _match_rank(code: ParsedLanguageCode, wanted: ParsedLanguageCode) -> tuple[int, ...]:
    """How well a code matches the wanted one; larger is better."""
    if wanted.is_language_only:
        return (code.is_language_only,)
    full, full_wanted = code.with_likely_subtags(), wanted.with_likely_subtags()
    return (
        code.minimal == wanted.minimal,
        full.script == full_wanted.script,
        full.region == full_wanted.region,
        code.variant == wanted.variant,
        not code.is_language_only,
    )


def _languages_by_name(name: str) -> set[ParsedLanguageCode]:
    """Look up a name such as German, Deutsch, Brazilian Portuguese, Chinese (Simplified) or Portuguese (br).

    English names come first: they are fast to load.
    """
    language, bracket, qualifier = name.rstrip(" )").partition("(")
    if not bracket:
        language, _, qualifier = name.partition(",")
    for load_names in (_english_names, _native_names):
        names = load_names()
        if known := names.get(normalize_language_name(name)):
            return known
        if qualified := {
            code._replace(**part)
            for code in names.get(normalize_language_name(language), ())
            for part in _script_or_region(qualifier)
        }:
            return qualified
    return set()


def _script_or_region(qualifier: str) -> Iterator[dict[str, str]]:
    """The scripts and regions that a qualifier such as Simplified or br may mean, as fields of `ParsedLanguageCode`."""
    english = Locale("en")
    for part, names in (("script", english.scripts), ("region", english.territories)):
        for code, name in names.items():
            if normalize_language_name(qualifier) in (code.casefold(), normalize_language_name(name)):
                yield {part: code}


def normalize_language_name(name: str) -> str:
    """Remove case, accents and extra spaces, so that names can be compared."""
    letters = unicodedata.normalize("NFKD", name.casefold())
    return " ".join("".join(letter for letter in letters if unicodedata.category(letter) != "Mn").split())


@cache
def _english_names() -> dict[str, set[ParsedLanguageCode]]:
    """Maps normalized English names to languages."""
    names: dict[str, set[ParsedLanguageCode]] = {}
    extra_names = ((code, name) for name, code in _EXTRA_ENGLISH_NAMES.items())
    for code, name in (*Locale("en").languages.items(), *MISSING_ENGLISH_NAMES.items(), *extra_names):
        names.setdefault(normalize_language_name(name), set()).add(parse_language_code(code))
    return names


@cache
def _native_names() -> dict[str, set[ParsedLanguageCode]]:
    """Maps normalized native names to languages. Building it takes half a second, so try the English names first."""
    names: dict[str, set[ParsedLanguageCode]] = {}
    for locale in map(Locale.parse, localedata.locale_identifiers()):
        for code in (locale.language, f"{locale.language}_{locale.script}") if not locale.territory else ():
            if name := locale.languages.get(code):
                names.setdefault(normalize_language_name(name), set()).add(parse_language_code(code))
        getattr(localedata, "_cache", {}).clear()  # otherwise all of CLDR stays in memory
    return names
