"""A built-in corpus of natural phrases in any language of Unicode CLDR, without a download.

Meanings (a date, a distance, a list of countries) are sampled at random, and each language expresses them in its own
way. Each meaning is used once, so no phrase of the dev and test splits occurs in training. The meanings depend on a
fixed seed, not on the chosen languages.
"""

from __future__ import annotations

import datetime
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Annotated, Any, Literal

import babel
from babel.core import get_global
from pydantic import Field

from manyglot.config.base_settings import CHANGEABLE_ON_RESUME
from manyglot.corpus.base import MAX_GENERATED_ROWS, BaseCorpusSettings, Row, Split, take_split
from manyglot.corpus.cldr import CldrFormatter, MissingPattern
from manyglot.corpus.language_selection import select_languages

PhraseWriter = Callable[[CldrFormatter], str]
"""Writes one sampled meaning in a language, or raises `MissingPattern`."""

UNITS_BY_QUANTITY = {
    "length": ("kilometer", "meter", "centimeter", "millimeter", "mile", "foot", "inch"),
    "mass": ("kilogram", "gram", "pound", "ounce", "tonne"),
    "volume": ("liter", "milliliter", "gallon", "teaspoon"),
    "area": ("hectare", "square-kilometer", "square-meter"),
    "temperature": ("celsius",),
    "speed": ("kilometer-per-hour", "meter-per-second"),
    "energy": ("kilocalorie", "joule"),
    "power": ("watt", "kilowatt"),
    "electric": ("volt",),
    "frequency": ("hertz",),
    "digital": ("byte", "gigabyte"),
    "angle": ("degree",),
    "pressure": ("hectopascal",),
}
"""Units of each quantity, by their CLDR names."""
UNITS = [f"{quantity}-{unit}" for quantity, units in UNITS_BY_QUANTITY.items() for unit in units]
DURATION_UNITS = ("duration-day", "duration-hour", "duration-minute", "duration-second")
RELATIVE_TIME_UNITS = ("year", "month", "week", "day", "hour", "minute", "second")
FIRST_DAY = datetime.date(1950, 1, 1).toordinal()
LAST_DAY = datetime.date(2049, 12, 31).toordinal()


class PhrasebookSettings(BaseCorpusSettings):
    """The built-in phrasebook of dates, amounts, places and lists."""

    kind: Literal["phrasebook"] = "phrasebook"
    """The kind of corpus: the built-in phrasebook."""
    languages: tuple[str, ...]
    """CLDR languages, in any style of code, for example [en, de, sw]."""
    license: Annotated[str | None, CHANGEABLE_ON_RESUME] = "Unicode License v3 (Unicode CLDR)"
    """The license of the text, for the model card."""
    train_rows: int = Field(6000, ge=1, le=MAX_GENERATED_ROWS)
    """Training phrases; each is written in all languages."""
    dev_rows: int = Field(200, ge=0, le=MAX_GENERATED_ROWS)
    """Dev phrases, for validation during training."""
    test_rows: int = Field(200, ge=0, le=MAX_GENERATED_ROWS)
    """Test phrases, for evaluation."""

    def split_sizes(self) -> dict[Split, int]:
        """The number of rows of each split."""
        return {Split.TRAIN: self.train_rows, Split.DEV: self.dev_rows, Split.TEST: self.test_rows}


class PhrasebookCorpus:
    """Rows with the same phrase in every chosen language."""

    def __init__(self, settings: PhrasebookSettings) -> None:
        self.settings = settings
        listed = {language: language for language in settings.languages}
        codes = select_languages(listed, settings.languages, settings.code_style, "corpus.languages")
        self.languages = tuple(codes.values())
        self._english = CldrFormatter("en")
        self._formatters = {code: CldrFormatter(code) for code in self.languages}

    def rows(self, split: Split) -> Iterator[Row]:
        """Write the phrases of a split. A row omits languages for which CLDR lacks the phrase."""
        for phrase in take_split(self._distinct_phrases(), split, self.settings.split_sizes()):
            yield {
                code: text for code, formatter in self._formatters.items() if (text := _write_phrase(phrase, formatter))
            }

    def fingerprint(self) -> str:
        """The version of the CLDR data, the only input besides the settings."""
        return f"babel:{babel.__version__}"

    def _distinct_phrases(self) -> Iterator[PhraseWriter]:
        """An endless stream of phrases whose English versions are all different."""
        rng = random.Random(1)
        seen: set[str] = set()
        while True:
            phrase = _sample_phrase(rng)
            english = _write_phrase(phrase, self._english)
            if english and english not in seen:
                seen.add(english)
                yield phrase


def _write_phrase(phrase: PhraseWriter, formatter: CldrFormatter) -> str:
    try:
        return formatter.normalize_whitespace(phrase(formatter))
    except MissingPattern:
        return ""


def _sample_phrase(rng: random.Random) -> PhraseWriter:
    samplers = (
        _sample_date,
        _sample_relative_time,
        _sample_quantity,
        _sample_money,
        _sample_duration,
        _sample_name_list,
    )
    return rng.choices(samplers, weights=(3, 2, 3, 2, 2, 2))[0](rng)


def _sample_date(rng: random.Random) -> PhraseWriter:
    day = datetime.date.fromordinal(rng.randint(FIRST_DAY, LAST_DAY))
    style = rng.choice(("full", "long"))
    return lambda formatter: formatter.format_date(day, style)


def _sample_relative_time(rng: random.Random) -> PhraseWriter:
    count, unit, past = _sample_small_number(rng), rng.choice(RELATIVE_TIME_UNITS), rng.random() < 0.5
    return lambda formatter: formatter.format_relative_time(count, unit, past)


def _sample_quantity(rng: random.Random) -> PhraseWriter:
    number = _sample_number(rng)
    unit = rng.choice(UNITS)
    return lambda formatter: formatter.format_unit(number, unit)


def _sample_money(rng: random.Random) -> PhraseWriter:
    number, currency = _sample_number(rng), _sample_weighted(rng, _currency_weights())
    return lambda formatter: formatter.format_currency_with_name(number, currency)


def _sample_duration(rng: random.Random) -> PhraseWriter:
    """Sample a duration of adjacent units, largest first: '2 hours and 5 minutes'."""
    largest = rng.randrange(len(DURATION_UNITS) - 1)
    units = DURATION_UNITS[largest : largest + rng.randint(2, 3)]
    counts = [rng.randint(1, 59) for _ in units]
    return lambda formatter: formatter.format_list(
        [formatter.format_unit(count, unit) for count, unit in zip(counts, units, strict=True)], "standard"
    )


def _sample_name_list(rng: random.Random) -> PhraseWriter:
    """Sample a list of countries, languages or currencies, joined with 'and' or 'or'."""
    table, weights = rng.choice(
        (
            ("country_name", _country_weights()),
            ("language_name", _language_weights()),
            ("currency_name", _currency_weights()),
        )
    )
    sampled_codes: dict[str, None] = {}  # a dict keeps the sampling order
    num_names = rng.randint(2, 3)
    while len(sampled_codes) < num_names:
        sampled_codes[_sample_weighted(rng, weights)] = None
    style = rng.choice(("standard", "or"))
    return lambda formatter: formatter.format_list([getattr(formatter, table)(code) for code in sampled_codes], style)


def _sample_number(rng: random.Random) -> float:
    return rng.randint(1, 9999) / 10 if rng.random() < 0.2 else _sample_small_number(rng)


def _sample_small_number(rng: random.Random) -> int:
    """Sample a log-uniform integer: small numbers are frequent and large ones rare, as in real text."""
    return int(10 ** rng.uniform(0, 3.3))


def _sample_weighted(rng: random.Random, weights: Mapping[str, int]) -> str:
    return rng.choices(list(weights), weights=list(weights.values()))[0]


@cache
def _country_weights() -> dict[str, int]:
    """Countries weighted by the number of languages spoken there."""
    return {code: len(languages) for code, languages in sorted(_territory_languages().items()) if code.isalpha()}


@cache
def _language_weights() -> dict[str, int]:
    """Languages with two-letter codes weighted by the number of countries where they are spoken."""
    counts = Counter(code for languages in _territory_languages().values() for code in languages if len(code) == 2)
    return dict(sorted(counts.items()))


@cache
def _currency_weights() -> dict[str, int]:
    """Currencies in use today weighted by the number of countries that use them."""
    history = get_global("territory_currencies").values()
    counts = Counter(code for entries in history for code, _, end, tender in entries if tender and end is None)
    return dict(sorted(counts.items()))


def _territory_languages() -> Mapping[str, Mapping[str, Any]]:
    languages: Any = get_global("territory_languages")
    return languages  # type: ignore[no-any-return]
