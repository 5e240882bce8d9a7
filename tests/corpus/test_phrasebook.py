from __future__ import annotations

import datetime
import re

import pytest

from manyglot.corpus.base import Split
from manyglot.corpus.cldr import CldrFormatter, MissingPattern, cldr_language_codes
from manyglot.corpus.phrasebook import PhrasebookCorpus, PhrasebookSettings
from manyglot.errors import LanguageError

WELL_COVERED = ("ar", "de", "en", "fi", "hi", "ja", "ka", "ko", "pl", "ru", "sw", "th", "tr", "vi", "zh")


def book(**changes: object) -> PhrasebookCorpus:
    return PhrasebookCorpus(PhrasebookSettings(**({"languages": WELL_COVERED, "train_rows": 200} | changes)))  # type: ignore[arg-type]


def test_rows_are_deterministic_and_as_many_as_requested() -> None:
    rows = list(book().rows(Split.TRAIN))
    assert len(rows) == 200
    assert rows == list(book().rows(Split.TRAIN))


def test_no_phrase_occurs_twice_or_in_two_splits() -> None:
    english = [row["en"] for split in Split for row in book().rows(split)]
    assert len(english) == len(set(english)) == 600


def test_dev_and_test_do_not_depend_on_training_size_or_languages() -> None:
    small, large = book(train_rows=10, languages=("en", "de")), book(train_rows=500)
    for split in (Split.DEV, Split.TEST):
        assert [r["en"] for r in small.rows(split)] == [r["en"] for r in large.rows(split)]


def test_no_language_has_untranslated_keys() -> None:
    keys = re.compile(r"(duration|length|mass|volume|area|digital|speed)-|\{\d\}|\bM\d\d\b")
    for row in book(languages=cldr_language_codes(), train_rows=120, dev_rows=0, test_rows=0).rows(Split.TRAIN):
        for code, text in row.items():
            assert not keys.search(text), (code, text)


def test_a_formatter_does_not_depend_on_formatters_created_before() -> None:
    day = datetime.date(2024, 7, 5)
    for code in ("en", "de", "yo"):
        formatter = CldrFormatter(code)
        assert formatter.format_date(day, "long")
    assert formatter.format_date(day, "long") == "5 Oṣù Agẹmọ 2024"


def test_lists_use_and_as_well_as_or() -> None:
    english = " ".join(row["en"] for row in book().rows(Split.TRAIN)).split()
    assert english.count("and") > 10
    assert english.count("or") > 10


def test_most_phrases_exist_in_well_covered_languages() -> None:
    rows = list(book().rows(Split.TRAIN))
    for code in WELL_COVERED:
        assert sum(code in row for row in rows) > 0.9 * len(rows), code


def test_formats_follow_the_language() -> None:
    german, swahili, chinese = CldrFormatter("de"), CldrFormatter("sw"), CldrFormatter("zh")
    assert german.format_relative_time(3, "day", past=True) == "vor 3 Tagen"
    assert swahili.format_unit(3, "length-kilometer") == "kilomita 3"
    assert chinese.format_unit(3, "length-kilometer") == "3公里"
    assert german.format_list(["a", "b", "c", "d"], "or") == "a, b, c oder d"
    assert german.format_list(["a", "b"], "standard") == "a und b"
    assert german.format_currency_with_name(1, "EUR") == "1 Euro"
    assert [CldrFormatter("ro").format_currency_with_name(n, "EUR") for n in (1, 25)] == ["1 euro", "25 de euro"]
    assert CldrFormatter("en").format_list(["a", "b"], "or") == "a or b"
    assert CldrFormatter("en").format_currency_with_name(2.5, "EUR") == "2.5 euros"


def test_missing_patterns_raise() -> None:
    aghem = CldrFormatter("agq")  # has months, days and country names, but no units
    with pytest.raises(MissingPattern):
        aghem.format_unit(3, "length-kilometer")
    with pytest.raises(MissingPattern):
        CldrFormatter("jbo").format_date(datetime.date(2024, 3, 5), "full")
    with pytest.raises(MissingPattern):
        CldrFormatter("en").country_name("QQ")


def test_an_unknown_language_is_refused() -> None:
    with pytest.raises(LanguageError, match="CLDR has no language 'xq'"):
        book(languages=("en", "xq"))
