"""One language of Unicode CLDR, through babel, for the phrasebook; what CLDR lacks is never made up.

babel falls back to CLDR's root locale, or to the key itself, where a language has no translation ("3 length-kilometer",
"M03 5"). Here such a gap raises `Lacking` instead: a pattern counts only when it differs from the root's.
"""

from __future__ import annotations

import copy
import datetime
import re
from collections.abc import Sequence
from functools import cache
from typing import Any

from babel import Locale, UnknownLocaleError, localedata
from babel.dates import format_date
from babel.numbers import format_decimal

from manyglot.errors import LanguageError, suggest

_NUMBER_STYLES = ("long", "short")
_INVISIBLE = re.compile("[\u200e\u200f\u061c\u00ad]")


class Lacking(Exception):
    """CLDR has no translation of this in this language."""


class CldrLanguage:
    """Writes dates, amounts, names and lists in one language."""

    def __init__(self, code: str) -> None:
        # babel's cache is changed by reading from it, and then a later language sees the root's words for its own
        # (Yoruba's months, say). With an empty cache every language is loaded afresh.
        getattr(localedata, "_cache", {}).clear()
        try:
            self.locale = Locale.parse(code, sep="-" if "-" in code else "_")
            self._data: Any = self.locale._data
        except (UnknownLocaleError, ValueError):
            raise LanguageError(f"Unicode CLDR has no language '{code}'. {suggest(code, cldr_codes())}") from None
        self.code = code

    def date(self, day: datetime.date, style: str) -> str:
        """A date in the `full` style (with the day of the week) or the `long` one."""
        names = {"months": day.month, "days": day.weekday()}
        for part, key in names.items():
            if self._data[part]["format"]["wide"][key] == _root()[part]["format"]["wide"][key]:
                raise Lacking
        if str(self._data["date_formats"][style]) == str(_root()["date_formats"][style]):
            raise Lacking
        return format_date(day, style, locale=self.locale)

    def relative(self, count: int, unit: str, past: bool) -> str:
        """'in 3 days', '2 hours ago'."""
        tense = "past" if past else "future"
        patterns = self._data["date_fields"].get(unit, {}).get(tense, {})
        root = _root()["date_fields"][unit][tense]
        return self._counted(count, {k: v for k, v in patterns.items() if v not in root.values()})

    def measure(self, number: float, unit: str) -> str:
        """'3 kilometers', with the plural form the language asks for."""
        root = _root()["unit_patterns"].get(unit, {}).get("short", {})
        for style in _NUMBER_STYLES:
            patterns = self._data["unit_patterns"].get(unit, {}).get(style, {})
            plurals = {k: v for k, v in patterns.items() if k != "per"}
            translated = {k: v for k, v in plurals.items() if style == "long" or v != root.get(k)}
            if translated:
                return self._counted(number, translated)
        raise Lacking

    def money(self, number: float, currency: str) -> str:
        """'12 euros'."""
        names = self._data["currency_names_plural"].get(currency, {})
        name = names.get(self.locale.plural_form(number)) or names.get("other") or self.currency(currency)
        patterns = self._data["currency_unit_patterns"]
        pattern = patterns.get(self.locale.plural_form(number)) or patterns.get("other", "{0} {1}")
        return str(pattern).format(format_decimal(number, locale=self.locale), name)

    def country(self, code: str) -> str:
        """The name of a country or territory."""
        return self._name("territories", code)

    def tongue(self, code: str) -> str:
        """The name of a language."""
        return self._name("languages", code)

    def currency(self, code: str) -> str:
        """The name of a currency."""
        return self._name("currency_names", code)

    def listing(self, items: Sequence[str], style: str) -> str:
        """Several things joined as the language joins them: 'a, b and c' (`standard`) or 'a, b or c' (`or`)."""
        patterns = self._data["list_patterns"].get(style, {})
        root = _root()["list_patterns"][style]
        # The root's "or" is English, so English alone may have the root's pattern.
        if self.locale.language != "en" and any(
            patterns.get(place, root[place]) == root[place] for place in ("end", "2")
        ):
            raise Lacking
        if len(items) == 2:
            return str(patterns["2"]).format(*items)
        joined = str(patterns["start"]).format(items[0], "{0}")
        for item in items[1:-2]:
            joined = joined.format(str(patterns["middle"]).format(item, "{0}"))
        return joined.format(str(patterns["end"]).format(*items[-2:]))

    def clean(self, text: str) -> str:
        """Plain spaces and no invisible direction marks, as people type."""
        return " ".join(_INVISIBLE.sub("", text).split())

    def _counted(self, number: float, patterns: dict[str, str]) -> str:
        pattern = patterns.get(self.locale.plural_form(number)) or patterns.get("other")
        if pattern is None or "{0}" not in pattern:
            raise Lacking
        return pattern.format(format_decimal(number, locale=self.locale))

    def _name(self, table: str, code: str) -> str:
        name = self._data[table].get(code)
        if not name or name == code:
            raise Lacking
        return str(name)


@cache
def _root() -> Any:
    data: Any = copy.deepcopy(localedata.load("root"))
    return localedata.LocaleDataDict(data)


def cldr_codes() -> list[str]:
    """All language codes of CLDR, without regional variants."""
    return sorted(code for code in localedata.locale_identifiers() if "_" not in code and code != "root")
