from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manyglot.corpus.languages import (
    Direction,
    Languages,
    check_language_code,
    english_language_name,
    enumerate_directions,
)
from manyglot.errors import LanguageError

CODES = st.lists(st.from_regex(r"[a-z]{2,3}", fullmatch=True), min_size=2, unique=True)


@given(CODES)
def test_ids_follow_the_sorted_codes(codes: list[str]) -> None:
    languages = Languages(codes)
    assert list(languages) == sorted(codes)
    assert [languages.id(code) for code in languages] == list(range(len(codes)))
    assert Languages(reversed(codes)) == languages


@given(CODES)
def test_directions_are_all_pairs_or_those_with_the_central_language(codes: list[str]) -> None:
    languages, n = Languages(codes), len(codes)
    all_directions, central = enumerate_directions(languages), enumerate_directions(languages, codes[0])
    assert len(set(all_directions)) == len(all_directions) == n * (n - 1)
    assert all(d.source != d.target for d in all_directions)
    assert central == [d for d in all_directions if codes[0] in d]
    assert len(central) == 2 * (n - 1)


def test_an_unknown_language_is_refused_with_suggestions() -> None:
    languages = Languages(["de", "en", "pt-br"])
    with pytest.raises(LanguageError, match=r"Unknown language 'pt_br'. Did you mean 'pt-br'"):
        languages.id("pt_br")
    with pytest.raises(LanguageError, match="Known: de, en, pt-br"):
        languages.id("qqq")


@pytest.mark.parametrize("code", ["", "e", "English", "de fr", "../x", "de-"])
def test_strings_that_are_not_codes_are_refused(code: str) -> None:
    with pytest.raises(LanguageError, match="is not a language code"):
        check_language_code(code)


def test_english_names_and_directions_as_text() -> None:
    assert english_language_name("sw") == "Swahili"
    assert english_language_name("pt-br") == "Portuguese (br)"
    assert english_language_name("qaa") == "qaa"
    assert str(Direction("de", "sw")) == "de→sw"
