"""Find the language that a user means by an ISO 639 or CLDR code, or by a name in English or in the language itself.

A code is parsed into its parts and canonicalized as in CLDR (deu and ger become de, iw becomes he, cmn becomes zh). A
name is replaced by its CLDR code. The result is then matched against the available languages.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from functools import cache, lru_cache
from typing import NamedTuple

from babel import Locale, localedata
from babel.core import get_global

_MACROLANGUAGE_MEMBERS = {"no": ("nb", "nn")}
"""Macrolanguages that CLDR does not list, with their members. The code usually means the first member."""

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
"""English names that CLDR lacks."""


class ParsedLanguageCode(NamedTuple):
    """The parts of a language code; absent parts are empty."""

    language: str
    script: str = ""
    region: str = ""
    variant: str = ""

    def __str__(self) -> str:
        return "-".join(filter(None, self))

    @property
    def is_language_only(self) -> bool:
        """Whether the code has no script, region or variant."""
        return not any(self[1:])

    def with_likely_subtags(self) -> ParsedLanguageCode:
        """Fill in the likely script and region where they are absent: zh-tw becomes zh-Hant-TW."""
        likely = get_global("likely_subtags")
        keys = ((self.language, self.script, self.region), (self.language, self.region), (self.language, self.script))
        full = next((likely[k] for k in ("_".join(filter(None, key)) for key in keys) if k in likely), None)
        default = parse_language_code(full or likely.get(self.language, self.language))
        return self._replace(script=self.script or default.script, region=self.region or default.region)

    def contradicts(self, other: ParsedLanguageCode) -> bool:
        """Whether two codes of one language exclude each other, such as pt-pt and pt-br, or zh-cn and zh-Hant."""
        if self.is_language_only or other.is_language_only:
            return False
        if self.with_likely_subtags().script != other.with_likely_subtags().script:
            return True
        return any(a and b and a != b for a, b in zip(self[2:], other[2:], strict=True))


@lru_cache(maxsize=4096)
def parse_language_code(code: str) -> ParsedLanguageCode:
    """Parse a code in any case and with `-` or `_`, and replace aliases of its language with CLDR's code."""
    first, *rest = code.replace("_", "-").casefold().split("-")
    alias = get_global("language_aliases").get(first, first)
    language, *implied = alias.replace("_", "-").casefold().split("-")
    script = next((part.title() for part in (*rest, *implied) if re.fullmatch("[a-z]{4}", part)), "")
    region = next((part.upper() for part in (*rest, *implied) if re.fullmatch("[a-z]{2}|[0-9]{3}", part)), "")
    return ParsedLanguageCode(
        language, script, region, "-".join(part for part in rest if part not in (script.lower(), region.lower()))
    )


def possible_languages(name: str) -> set[ParsedLanguageCode]:
    """All languages that a code or name may mean according to CLDR; empty if CLDR does not know it.

    A known code takes precedence over a name: ga is Irish, although a language Ga exists.
    """
    code = parse_language_code(name.strip())
    if code.language in Locale("en").languages or code.language in get_global("language_aliases").values():
        return {code}
    return _languages_by_name(name)


def best_matching_codes(wanted: ParsedLanguageCode, codes: Iterable[str]) -> list[str]:
    """The available codes that match the wanted one best: one code, several equally good ones, or none.

    Script and region matter where the available codes differ in them. A code that is less specific than the wanted one
    matches it. A more specific code matches if it is the only one.
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


def _related_languages(language: str) -> set[str]:
    """The members of a macrolanguage, or the macrolanguages whose code usually means this language."""
    return {
        *_MACROLANGUAGE_MEMBERS.get(language, ()),
        *(macro for macro, members in _MACROLANGUAGE_MEMBERS.items() if members[0] == language),
    }


def _match_rank(code: ParsedLanguageCode, wanted: ParsedLanguageCode) -> tuple[int, ...]:
    """How well a code matches the wanted one; larger is better."""
    if wanted.is_language_only:
        return (code.is_language_only,)
    full, full_wanted = code.with_likely_subtags(), wanted.with_likely_subtags()
    return (
        full.script == full_wanted.script,
        full.region == full_wanted.region,
        code.variant == wanted.variant,
        not code.is_language_only,
    )


def _languages_by_name(name: str) -> set[ParsedLanguageCode]:
    """Look up a name such as German, Deutsch, Brazilian Portuguese, Chinese (Simplified) or Portuguese (br)."""
    if known := _languages_by_exact_name(name):
        return known
    language, bracket, qualifier = name.rstrip(" )").partition("(")
    if not bracket:
        language, _, qualifier = name.partition(",")
    return {
        code._replace(**part) for code in _languages_by_exact_name(language) for part in _script_or_region(qualifier)
    }


def _languages_by_exact_name(name: str) -> set[ParsedLanguageCode]:
    """Look up a whole name, first in English and then in all languages."""
    key = normalize_language_name(name)
    return _english_names().get(key) or _native_names().get(key) or set()


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
    for code, name in (*Locale("en").languages.items(), *((code, name) for name, code in _EXTRA_ENGLISH_NAMES.items())):
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
