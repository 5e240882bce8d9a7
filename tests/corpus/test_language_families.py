from __future__ import annotations

from collections import Counter

from manyglot.corpus.language_families import _LANGUAGES_BY_FAMILY, UNKNOWN_FAMILY, language_family
from tests.corpus.language_code_lists import CODE_LISTS


def test_all_languages_of_the_published_lists_have_one_family() -> None:
    codes = {code for listed in CODE_LISTS.values() for code in listed}
    assert sorted(code for code in codes if language_family(code) == UNKNOWN_FAMILY) == []
    counts = Counter(code for languages in _LANGUAGES_BY_FAMILY.values() for code in languages.split())
    assert max(counts.values()) == 1


def test_codes_of_any_style_have_a_family() -> None:
    assert [language_family(code) for code in ("de", "deu_Latn", "ger", "de-AT")] == ["Germanic"] * 4
    assert language_family("zho_Hant") == language_family("my") == "Sino-Tibetan"
    assert language_family("qaa") == UNKNOWN_FAMILY
