from __future__ import annotations

import datetime
import re

import pytest

from manyglot.corpus.cldr import CldrLanguage, Lacking, cldr_codes
from manyglot.corpus.phrasebook import Phrasebook, PhrasebookSettings
from manyglot.corpus.rows import Split
from manyglot.errors import LanguageError

MANY = ("ar", "de", "en", "fi", "hi", "ja", "ka", "ko", "pl", "ru", "sw", "th", "tr", "vi", "zh")


def book(**changes: object) -> Phrasebook:
    return Phrasebook(PhrasebookSettings(**({"languages": MANY, "train_rows": 200} | changes)))  # type: ignore[arg-type]


def test_it_is_deterministic_and_of_the_size_asked_for() -> None:
    rows = list(book().rows(Split.TRAIN))
    assert len(rows) == 200
    assert rows == list(book().rows(Split.TRAIN))


def test_no_phrase_is_in_two_splits_and_none_twice() -> None:
    english = [row["en"] for split in Split for row in book().rows(split)]
    assert len(english) == len(set(english)) == 600


def test_dev_and_test_do_not_depend_on_the_training_size_nor_on_the_languages() -> None:
    small, large = book(train_rows=10, languages=("en", "de")), book(train_rows=500)
    for split in (Split.DEV, Split.TEST):
        assert [r["en"] for r in small.rows(split)] == [r["en"] for r in large.rows(split)]


def test_there_are_no_untranslated_keys_in_any_language() -> None:
    keys = re.compile(r"(duration|length|mass|volume|area|digital|speed)-|\{\d\}|\bM\d\d\b")
    for row in book(languages=cldr_codes(), train_rows=120, dev_rows=0, test_rows=0).rows(Split.TRAIN):
        for code, text in row.items():
            assert not keys.search(text), (code, text)


def test_a_language_does_not_depend_on_those_read_before_it() -> None:
    day = datetime.date(2024, 7, 5)
    for code in ("en", "de", "yo"):
        language = CldrLanguage(code)
        assert language.date(day, "long")
    assert language.date(day, "long") == "5 Oṣù Agẹmọ 2024"


def test_lists_say_and_as_well_as_or() -> None:
    english = " ".join(row["en"] for row in book().rows(Split.TRAIN)).split()
    assert english.count("and") > 10
    assert english.count("or") > 10


def test_most_phrases_exist_in_well_covered_languages() -> None:
    rows = list(book().rows(Split.TRAIN))
    for code in MANY:
        assert sum(code in row for row in rows) > 0.9 * len(rows), code


def test_a_language_writes_its_own_way() -> None:
    german, swahili, chinese = CldrLanguage("de"), CldrLanguage("sw"), CldrLanguage("zh")
    assert german.relative(3, "day", past=True) == "vor 3 Tagen"
    assert swahili.measure(3, "length-kilometer") == "kilomita 3"
    assert chinese.measure(3, "length-kilometer") == "3公里"
    assert german.listing(["a", "b", "c", "d"], "or") == "a, b, c oder d"
    assert german.listing(["a", "b"], "standard") == "a und b"
    assert german.money(1, "EUR") == "1 Euro"
    assert [CldrLanguage("ro").money(n, "EUR") for n in (1, 25)] == ["1 euro", "25 de euro"]
    assert CldrLanguage("en").listing(["a", "b"], "or") == "a or b"
    assert CldrLanguage("en").money(2.5, "EUR") == "2.5 euros"


def test_what_cldr_lacks_is_said_and_not_made_up() -> None:
    bare = CldrLanguage("agq")  # Aghem: months, days and names of countries, but no units
    with pytest.raises(Lacking):
        bare.measure(3, "length-kilometer")
    with pytest.raises(Lacking):
        CldrLanguage("jbo").date(datetime.date(2024, 3, 5), "full")
    with pytest.raises(Lacking):
        CldrLanguage("en").country("QQ")


def test_an_unknown_language_is_refused() -> None:
    with pytest.raises(LanguageError, match="CLDR has no language 'xq'"):
        book(languages=("en", "xq"))
