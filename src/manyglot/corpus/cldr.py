"""Format dates, amounts, names and lists in one language, using Unicode CLDR through babel.

Where a language has no translation, babel falls back to CLDR's root locale or to the key itself ("3 length-kilometer",
"M03 5"). The formatter raises `MissingPattern` instead: it accepts a pattern only if it differs from the root's.
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

from manyglot.corpus.language_codes import parse_language_code
from manyglot.errors import LanguageError, did_you_mean, shorten

_NUMBER_STYLES = ("long", "short")
_INVISIBLE_MARKS = re.compile("[\u200e\u200f\u061c\u00ad]")


class MissingPattern(Exception):
    """CLDR has no pattern or name for this item in this language."""


class CldrFormatter:
    """Formats dates, amounts, names and lists in one language."""

    def __init__(self, code: str) -> None:
        # Reading from babel's cache modifies it, and later languages then inherit words of the root locale (the months
        # of Yoruba, for example). With an empty cache every language is loaded anew.
        getattr(localedata, "_cache", {}).clear()
        try:
            self.locale = Locale.parse(str(parse_language_code(code)), sep="-")
            self._data: Any = self.locale._data
        except (UnknownLocaleError, ValueError):
            raise LanguageError(
                f"Unicode CLDR has no language '{shorten(code)}'. {did_you_mean(code, cldr_language_codes())}"
            ) from None
        self.code = code

    def format_date(self, day: datetime.date, style: str) -> str:
        """Format a date in the `full` style (with the day of the week) or the `long` style."""
        required_names = {"months": day.month, "days": day.weekday()}
        for part, key in required_names.items():
            if self._data[part]["format"]["wide"][key] == _root_locale_data()[part]["format"]["wide"][key]:
                raise MissingPattern
        if str(self._data["date_formats"][style]) == str(_root_locale_data()["date_formats"][style]):
            raise MissingPattern
        return format_date(day, style, locale=self.locale)

    def format_relative_time(self, count: int, unit: str, past: bool) -> str:
        """Format a relative time, such as 'in 3 days' or '2 hours ago'."""
        tense = "past" if past else "future"
        patterns = self._data["date_fields"].get(unit, {}).get(tense, {})
        root = _root_locale_data()["date_fields"][unit][tense]
        return self._format_plural(count, {k: v for k, v in patterns.items() if v not in root.values()})

    def format_unit(self, number: float, unit: str) -> str:
        """Format a quantity, such as '3 kilometers', in the plural form that the number requires."""
        root = _root_locale_data()["unit_patterns"].get(unit, {}).get("short", {})
        for style in _NUMBER_STYLES:
            patterns = self._data["unit_patterns"].get(unit, {}).get(style, {})
            plurals = {k: v for k, v in patterns.items() if k != "per"}
            translated = {k: v for k, v in plurals.items() if style == "long" or v != root.get(k)}
            if translated:
                return self._format_plural(number, translated)
        raise MissingPattern

    def format_currency_with_name(self, number: float, currency: str) -> str:
        """Format an amount of money, such as '12 euros'."""
        names = self._data["currency_names_plural"].get(currency, {})
        name = names.get(self.locale.plural_form(number)) or names.get("other") or self.currency_name(currency)
        patterns = self._data["currency_unit_patterns"]
        pattern = patterns.get(self.locale.plural_form(number)) or patterns.get("other", "{0} {1}")
        return str(pattern).format(format_decimal(number, locale=self.locale), name)

    def country_name(self, code: str) -> str:
        """The name of a country or territory."""
        return self._localized_name("territories", code)

    def language_name(self, code: str) -> str:
        """The name of a language."""
        return self._localized_name("languages", code)

    def currency_name(self, code: str) -> str:
        """The name of a currency."""
        return self._localized_name("currency_names", code)

    def format_list(self, items: Sequence[str], style: str) -> str:
        """Join at least two items: 'a, b and c' (style `standard`) or 'a, b or c' (style `or`)."""
        patterns = self._data["list_patterns"].get(style, {})
        root = _root_locale_data()["list_patterns"][style]
        # The "or" of the root locale is English, so only English may use the root's pattern.
        if self.locale.language != "en" and any(
            patterns.get(position, root[position]) == root[position] for position in ("end", "2")
        ):
            raise MissingPattern
        if len(items) == 2:
            return str(patterns["2"]).format(*items)
        joined = str(patterns["start"]).format(items[0], "{0}")
        for item in items[1:-2]:
            joined = joined.format(str(patterns["middle"]).format(item, "{0}"))
        return joined.format(str(patterns["end"]).format(*items[-2:]))

    def normalize_whitespace(self, text: str) -> str:
        """Replace whitespace with single spaces and remove invisible marks, so that text looks as people type it."""
        return " ".join(_INVISIBLE_MARKS.sub("", text).split())

    def _format_plural(self, number: float, patterns: dict[str, str]) -> str:
        pattern = patterns.get(self.locale.plural_form(number)) or patterns.get("other")
        if pattern is None or "{0}" not in pattern:
            raise MissingPattern
        return pattern.format(format_decimal(number, locale=self.locale))

    def _localized_name(self, table: str, code: str) -> str:
        name = self._data[table].get(code)
        if not name or name == code:
            raise MissingPattern
        return str(name)


@cache
def _root_locale_data() -> Any:
    data: Any = copy.deepcopy(localedata.load("root"))
    return localedata.LocaleDataDict(data)


def cldr_language_codes() -> list[str]:
    """All language codes of CLDR, without regional variants."""
    return sorted(code for code in localedata.locale_identifiers() if "_" not in code and code != "root")
