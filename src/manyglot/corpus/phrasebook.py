"""The built-in corpus: a phrasebook of real language in any language of Unicode CLDR, with no download.

Phrases are drawn as meanings (a date, a distance, a list of countries) at random, and each language writes them
its own way. A meaning is drawn once, so no phrase of the dev and test splits occurs in training; the meanings depend on
a fixed seed, not on the chosen languages.
"""

from __future__ import annotations

import datetime
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any, Literal

import babel
from babel.core import get_global
from pydantic import Field

from manyglot.corpus.cldr import CldrLanguage, Lacking
from manyglot.corpus.rows import CorpusOptions, Row, Split, take_split

Phrase = Callable[[CldrLanguage], str]
"""Writes one meaning in a language, or raises `Lacking`."""

MEASURES = {
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
"""Quantities and their units, by their names in CLDR."""
UNITS = [f"{quantity}-{unit}" for quantity, units in MEASURES.items() for unit in units]
DURATIONS = ("duration-day", "duration-hour", "duration-minute", "duration-second")
RELATIVE_UNITS = ("year", "month", "week", "day", "hour", "minute", "second")
FIRST_DAY = datetime.date(1950, 1, 1).toordinal()
LAST_DAY = datetime.date(2049, 12, 31).toordinal()


class PhrasebookSettings(CorpusOptions):
    """The built-in phrasebook of dates, amounts, places and lists."""

    kind: Literal["phrasebook"] = "phrasebook"
    """Which corpus: the built-in phrasebook."""
    languages: tuple[str, ...]
    """Codes of CLDR languages, for example [en, de, sw]."""
    train_rows: int = Field(6000, ge=1)
    """Phrases for training; each is in all languages."""
    dev_rows: int = Field(200, ge=0)
    """Phrases for watching the training."""
    test_rows: int = Field(200, ge=0)
    """Phrases for evaluation."""

    def sizes(self) -> dict[Split, int]:
        """The number of rows of each split."""
        return {Split.TRAIN: self.train_rows, Split.DEV: self.dev_rows, Split.TEST: self.test_rows}


class Phrasebook:
    """Rows of the same phrase in every chosen language."""

    def __init__(self, settings: PhrasebookSettings) -> None:
        self.settings = settings
        self.languages = tuple(settings.languages)
        self._english = CldrLanguage("en")
        self._writers = {code: CldrLanguage(code) for code in self.languages}

    def rows(self, split: Split) -> Iterator[Row]:
        """Write the phrases of a split; a language that lacks a phrase is left out of that row."""
        for phrase in take_split(self._distinct_phrases(), split, self.settings.sizes()):
            yield {code: text for code, writer in self._writers.items() if (text := _write(phrase, writer))}

    def fingerprint(self) -> str:
        """The version of the CLDR data; the rest is settings."""
        return f"babel:{babel.__version__}"

    def _distinct_phrases(self) -> Iterator[Phrase]:
        """An endless stream of phrases, each different from all before it in English."""
        rng = random.Random(1)
        seen: set[str] = set()
        while True:
            phrase = _draw_phrase(rng)
            english = _write(phrase, self._english)
            if english and english not in seen:
                seen.add(english)
                yield phrase


def _write(phrase: Phrase, writer: CldrLanguage) -> str:
    try:
        return writer.clean(phrase(writer))
    except Lacking:
        return ""


def _draw_phrase(rng: random.Random) -> Phrase:
    kinds = (_date, _relative, _measure, _money, _duration, _names)
    return rng.choices(kinds, weights=(3, 2, 3, 2, 2, 2))[0](rng)


def _date(rng: random.Random) -> Phrase:
    day = datetime.date.fromordinal(rng.randint(FIRST_DAY, LAST_DAY))
    style = rng.choice(("full", "long"))
    return lambda writer: writer.date(day, style)


def _relative(rng: random.Random) -> Phrase:
    count, unit, past = _small_number(rng), rng.choice(RELATIVE_UNITS), rng.random() < 0.5
    return lambda writer: writer.relative(count, unit, past)


def _measure(rng: random.Random) -> Phrase:
    number = _number(rng)
    unit = rng.choice(UNITS)
    return lambda writer: writer.measure(number, unit)


def _money(rng: random.Random) -> Phrase:
    number, currency = _number(rng), _weighted(rng, _currencies())
    return lambda writer: writer.money(number, currency)


def _duration(rng: random.Random) -> Phrase:
    """'2 hours and 5 minutes': neighbouring units, largest first."""
    first = rng.randrange(len(DURATIONS) - 1)
    units = DURATIONS[first : first + rng.randint(2, 3)]
    counts = [rng.randint(1, 59) for _ in units]
    return lambda writer: writer.listing(
        [writer.measure(count, unit) for count, unit in zip(counts, units, strict=True)], "standard"
    )


def _names(rng: random.Random) -> Phrase:
    """A list of countries, of languages or of currencies, with 'and' or 'or'."""
    table, weights = rng.choice((("country", _countries()), ("tongue", _tongues()), ("currency", _currencies())))
    chosen: dict[str, None] = {}  # a dict keeps the order of drawing
    num_names = rng.randint(2, 3)
    while len(chosen) < num_names:
        chosen[_weighted(rng, weights)] = None
    style = rng.choice(("standard", "or"))
    return lambda writer: writer.listing([getattr(writer, table)(code) for code in chosen], style)


def _number(rng: random.Random) -> float:
    return rng.randint(1, 9999) / 10 if rng.random() < 0.2 else _small_number(rng)


def _small_number(rng: random.Random) -> int:
    """Small numbers are frequent and large ones rare, as in life."""
    return int(10 ** rng.uniform(0, 3.3))


def _weighted(rng: random.Random, weights: Mapping[str, int]) -> str:
    return rng.choices(list(weights), weights=list(weights.values()))[0]


@cache
def _countries() -> dict[str, int]:
    """Countries, weighted by the number of languages spoken there."""
    return {code: len(tongues) for code, tongues in sorted(_spoken().items()) if code.isalpha()}


@cache
def _tongues() -> dict[str, int]:
    """Languages with a code of two letters, weighted by the number of countries where they are spoken."""
    counts = Counter(code for tongues in _spoken().values() for code in tongues if len(code) == 2)
    return dict(sorted(counts.items()))


@cache
def _currencies() -> dict[str, int]:
    """The currencies in use today, weighted by the number of countries that use them."""
    history = get_global("territory_currencies").values()
    counts = Counter(code for entries in history for code, _, end, tender in entries if tender and end is None)
    return dict(sorted(counts.items()))


def _spoken() -> Mapping[str, Mapping[str, Any]]:
    spoken: Any = get_global("territory_languages")
    return spoken  # type: ignore[no-any-return]
