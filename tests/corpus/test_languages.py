from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manyglot.corpus.languages import (
    Direction,
    Languages,
    check_code,
    directions_of,
    name_of,
)
from manyglot.errors import LanguageError

CODES = st.lists(st.from_regex(r"[a-z]{2,3}", fullmatch=True), min_size=2, unique=True)


@given(CODES)
def test_ids_follow_the_sorted_codes_whatever_the_order(codes: list[str]) -> None:
    languages = Languages(codes)
    assert list(languages) == sorted(codes)
    assert [languages.id(code) for code in languages] == list(range(len(codes)))
    assert Languages(reversed(codes)) == languages


@given(CODES)
def test_directions_are_all_pairs_or_those_with_the_pivot(codes: list[str]) -> None:
    languages, n = Languages(codes), len(codes)
    every, centric = directions_of(languages), directions_of(languages, codes[0])
    assert len(set(every)) == len(every) == n * (n - 1)
    assert all(d.source != d.target for d in every)
    assert centric == [d for d in every if codes[0] in d]
    assert len(centric) == 2 * (n - 1)


def test_an_unknown_language_is_refused_with_the_nearest() -> None:
    languages = Languages(["de", "en", "pt-br"])
    with pytest.raises(LanguageError, match=r"Unknown language 'pt_br'. Did you mean 'pt-br'"):
        languages.id("pt_br")
    with pytest.raises(LanguageError, match="Known: de, en, pt-br"):
        languages.id("qqq")


@pytest.mark.parametrize("code", ["", "e", "English", "de fr", "../x", "de-"])
def test_what_is_no_code_is_refused(code: str) -> None:
    with pytest.raises(LanguageError, match="is not a language code"):
        check_code(code)


def test_names() -> None:
    assert name_of("sw") == "Swahili"
    assert name_of("pt-br") == "Portuguese (br)"
    assert name_of("qaa") == "qaa"
    assert str(Direction("de", "sw")) == "de→sw"
