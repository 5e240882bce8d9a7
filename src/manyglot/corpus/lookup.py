"""Which of some languages a person means: by codes of ISO 639 and CLDR, and by names in English or in the language.

A code is read into its parts under CLDR's own spelling (deu and ger are de, iw is he, cmn is zh), a name becomes the
code that CLDR has it for, and both are then compared with the languages that are there.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from functools import cache, lru_cache
from typing import NamedTuple

from babel import Locale, localedata
from babel.core import get_global

_MEMBERS = {"no": ("nb", "nn")}
"""Macro-languages beside those that CLDR knows; their codes mostly stand for the first member."""

_OTHER_NAMES = {
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
"""English names that CLDR's list has not."""


class Tag(NamedTuple):
    """A language code in its parts, empty where it does not say."""

    language: str
    script: str = ""
    region: str = ""
    variant: str = ""

    def __str__(self) -> str:
        return "-".join(filter(None, self))

    @property
    def is_plain(self) -> bool:
        """Whether it is a language without script, region or variant."""
        return not any(self[1:])

    def complete(self) -> Tag:
        """With the likely script and region where it has none: zh-Hant-TW of zh-tw."""
        likely = get_global("likely_subtags")
        keys = ((self.language, self.script, self.region), (self.language, self.region), (self.language, self.script))
        full = next((likely[k] for k in ("_".join(filter(None, key)) for key in keys) if k in likely), None)
        default = read_code(full or likely.get(self.language, self.language))
        return self._replace(script=self.script or default.script, region=self.region or default.region)

    def contradicts(self, other: Tag) -> bool:
        """Whether two codes of one language say different things, as pt-pt and pt-br, or zh-cn and zh-Hant."""
        if self.is_plain or other.is_plain:
            return False
        pairs = zip(self[2:], other[2:], strict=True)
        return self.complete().script != other.complete().script or any(a and b and a != b for a, b in pairs)


@lru_cache(maxsize=4096)
def read_code(code: str) -> Tag:
    """Read a code, whatever its case and separators, under the name that CLDR has for its language."""
    first, *rest = code.replace("_", "-").casefold().split("-")
    alias = get_global("language_aliases").get(first, first)
    language, *implied = alias.replace("_", "-").casefold().split("-")
    script = next((part.title() for part in (*rest, *implied) if re.fullmatch("[a-z]{4}", part)), "")
    region = next((part.upper() for part in (*rest, *implied) if re.fullmatch("[a-z]{2}|[0-9]{3}", part)), "")
    return Tag(
        language, script, region, "-".join(part for part in rest if part not in (script.lower(), region.lower()))
    )


def meanings(name: str) -> set[Tag]:
    """What a code or name can mean, by CLDR; nothing where it does not know it.

    A code is taken for that, though it may also be a name: ga is Irish, whatever the language Ga.
    """
    code = read_code(name.strip())
    if code.language in Locale("en").languages or code.language in get_global("language_aliases").values():
        return {code}
    return _by_name(name)


def candidates(wanted: Tag, codes: Iterable[str]) -> list[str]:
    """The codes that fit best what is wanted: one, or several that fit it equally, or none.

    Script and region count where codes differ in them. A code that says less than is wanted fits it; one that says more
    fits when it is the only one.
    """
    same = [code for code in codes if read_code(code).language == wanted.language]
    if not same:
        same = [code for code in codes if read_code(code).language in _relatives(wanted.language)]
    fitting = [code for code in same if not read_code(code).contradicts(wanted)]
    fits = {code: _fit(read_code(code), wanted) for code in fitting}
    return [code for code in fitting if fits[code] == max(fits.values())]


def spelled(name: str, codes: Iterable[str]) -> list[str]:
    """The codes that are a name's in another case or with other separators."""
    return [code for code in codes if _spelling(code) == _spelling(name)]


def _spelling(code: str) -> str:
    return code.strip().replace("_", "-").casefold()


def _relatives(language: str) -> set[str]:
    """The members of a macro-language, or the macro-language that mostly stands for a language."""
    return {*_MEMBERS.get(language, ()), *(whole for whole, members in _MEMBERS.items() if members[0] == language)}


def _fit(tag: Tag, wanted: Tag) -> tuple[int, ...]:
    """How well a code fits what is wanted, the larger the better."""
    if wanted.is_plain:
        return (tag.is_plain,)
    full, other = tag.complete(), wanted.complete()
    return full.script == other.script, full.region == other.region, tag.variant == wanted.variant, not tag.is_plain


def _by_name(name: str) -> set[Tag]:
    """The languages of a name such as German, Deutsch, Brazilian Portuguese, Chinese (Simplified), Portuguese (br)."""
    known = _english().get(fold(name)) or _own().get(fold(name))
    if known:
        return known
    language, bracket, detail = name.rstrip(" )").partition("(")
    if not bracket:
        language, _, detail = name.partition(",")
    base = _english().get(fold(language)) or _own().get(fold(language)) or set()
    return {tag._replace(**part) for tag in base for part in _detail(detail)}


def _detail(text: str) -> Iterator[dict[str, str]]:
    """The script or region that is meant by what stands in brackets after a language."""
    english = Locale("en")
    for part, names in (("script", english.scripts), ("region", english.territories)):
        for code, name in names.items():
            if fold(text) in (code.casefold(), fold(name)):
                yield {part: code}


def fold(name: str) -> str:
    """A name without what people leave out: case, accents, space around it and between its words."""
    letters = unicodedata.normalize("NFKD", name.casefold())
    return " ".join("".join(letter for letter in letters if unicodedata.category(letter) != "Mn").split())


@cache
def _english() -> dict[str, set[Tag]]:
    """English names."""
    names: dict[str, set[Tag]] = {}
    for code, name in (*Locale("en").languages.items(), *((code, name) for name, code in _OTHER_NAMES.items())):
        names.setdefault(fold(name), set()).add(read_code(code))
    return names


@cache
def _own() -> dict[str, set[Tag]]:
    """What languages call themselves and their variants; half a second, so only where the English names do not help."""
    names: dict[str, set[Tag]] = {}
    for locale in map(Locale.parse, localedata.locale_identifiers()):
        for code in (locale.language, f"{locale.language}_{locale.script}") if not locale.territory else ():
            if name := locale.languages.get(code):
                names.setdefault(fold(name), set()).add(read_code(code))
        getattr(localedata, "_cache", {}).clear()  # or else all of CLDR stays in memory
    return names
