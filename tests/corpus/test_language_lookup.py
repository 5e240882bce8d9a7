from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from babel import Locale
from babel.core import get_global
from hypothesis import given
from hypothesis import strategies as st

from manyglot.corpus.languages import Languages, english_language_name
from manyglot.errors import LanguageError

RECIPE = Path(__file__).parents[2] / "recipes" / "mix60.yaml"
SIXTY = Languages(yaml.safe_load(RECIPE.read_text())["corpus"]["languages"])
TED = Languages(["de", "en", "fr", "fr-ca", "nb", "pt", "pt-br", "sr", "zh", "zh-cn", "zh-tw"])
TWO_LETTERS = [code for code in Locale("en").languages if len(code) == 2]


def spellings(code: str) -> st.SearchStrategy[str]:
    return st.sampled_from([code, code.upper(), code.title(), f" {code}", f"{code}_Zzzz", f"{code}-ZZ"])


@given(st.sampled_from(SIXTY.codes).flatmap(lambda code: st.tuples(st.just(code), spellings(code))))
def test_every_code_is_found_in_any_spelling(case: tuple[str, str]) -> None:
    code, spelling = case
    assert SIXTY.find_code(spelling) == code


@pytest.mark.parametrize("code", SIXTY)
def test_english_and_native_names_are_found(code: str) -> None:
    assert SIXTY.find_code(english_language_name(code)) == code
    assert SIXTY.find_code(english_language_name(code).upper()) == code
    if native_name := Locale.parse(code).languages.get(code):
        assert SIXTY.find_code(native_name) == code


@pytest.mark.parametrize("code", TED)
def test_names_of_variants_are_found(code: str) -> None:
    assert TED.find_code(english_language_name(code)) == code


@pytest.mark.parametrize("two", TWO_LETTERS)
def test_two_and_three_letter_codes_are_equivalent(two: str) -> None:
    aliases = get_global("language_aliases")
    for three in [three for three, other in aliases.items() if other == two and len(three) == 3]:
        assert Languages([two, "qaa"]).find_code(three) == two
        assert Languages([three, "qaa"]).find_code(two) == three


@pytest.mark.parametrize(
    ("name", "codes", "code"),
    [
        ("ger", "de en", "de"),
        ("chi", "en zh", "zh"),
        ("ger", "deu eng", "deu"),
        ("PT_br", "pt pt-br", "pt-br"),
        ("pt_PT", "pt pt-br", "pt"),
        ("Brazilian Portuguese", "pt pt-br", "pt-br"),
        ("Portuguese (Brazil)", "pt pt-br", "pt-br"),
        ("Portuguese", "pt-br", "pt-br"),
        ("Chinese (Simplified)", "zh-cn zh-tw", "zh-cn"),
        ("Chinese, Traditional", "zh-cn zh-tw", "zh-tw"),
        ("zh-Hans-CN", "en zh", "zh"),
        ("zh-Hans-CN", "zh-cn zh-tw", "zh-cn"),
        ("zh_HK", "zh-Hans zh-Hant", "zh-Hant"),
        ("sr-Latn", "hr sr", "sr"),
        ("sr-Latn", "sr-Cyrl sr-Latn", "sr-Latn"),
        ("sh", "hr sr-Cyrl sr-Latn", "sr-Latn"),
        ("eng_Latn", "de en", "en"),
        ("no", "de nb", "nb"),
        ("nb", "nn no", "no"),
        ("cmn", "yue zh", "zh"),
        ("iw", "he id", "he"),
        ("in", "he id", "id"),
        ("tl", "fil ms", "fil"),
        ("Filipino", "ms tl", "tl"),
        ("francais", "fr fr-ca", "fr"),
        ("简体中文", "zh-cn zh-tw", "zh-cn"),
        ("Farsi", "ar fa", "fa"),
        ("qaa-Latn", "qaa qab", "qaa"),
    ],
)
def test_common_ways_to_write_a_language_are_found(name: str, codes: str, code: str) -> None:
    assert Languages(codes.split()).find_code(name) == code


@pytest.mark.parametrize(
    ("name", "codes", "both"),
    [
        ("zh", "zh-cn zh-tw", r"zh-cn \(Chinese \(cn\)\) or zh-tw"),
        ("Norwegian", "nb nn", "nb .* or nn"),
        ("English", "en-gb en-us", "en-gb .* or en-us"),
        ("PT-BR", "pt-br pt_br", "pt-br .* or pt_br"),
    ],
)
def test_an_ambiguous_name_is_refused_with_the_candidates(name: str, codes: str, both: str) -> None:
    with pytest.raises(LanguageError, match=f"'{name}' is ambiguous: {both}"):
        Languages(codes.split()).find_code(name)


@pytest.mark.parametrize(
    ("name", "missing"),
    [
        ("German", "German (de)"),
        ("deu", "German (de)"),
        ("Deutsch", "German (de)"),
        ("pt-PT", "Portuguese (PT) (pt-PT)"),
        ("zh-Hant", "Chinese (Hant) (zh-Hant)"),
        ("nn", "Norwegian Nynorsk (nn)"),
    ],
)
def test_a_known_language_that_is_not_available_is_named(name: str, missing: str) -> None:
    with pytest.raises(LanguageError) as caught:
        Languages(["no", "pt-br", "zh-cn"]).find_code(name)
    assert str(caught.value) == f"{missing} is not among the model's languages: no, pt-br, zh-cn."


def test_an_unknown_name_is_refused_with_suggestions() -> None:
    with pytest.raises(LanguageError, match=r"Unknown language 'Germn'. Did you mean de \(German\)"):
        SIXTY.find_code("Germn")
    with pytest.raises(LanguageError, match=r"Known: ar \(Arabic\), .* and 50 more"):
        SIXTY.find_code("qqqqqq")


@given(st.text() | st.text(alphabet="deznch-_ ()", max_size=12))
def test_any_input_yields_a_code_or_a_one_line_error(name: str) -> None:
    for languages in (SIXTY, TED, Languages([])):
        message = ""
        try:
            assert languages.find_code(name) in languages
        except LanguageError as error:
            message = str(error)
        assert "\n" not in message
        assert len(message) < 1000


def test_ids_accept_codes_only() -> None:
    with pytest.raises(LanguageError, match="Unknown language 'German'"):
        SIXTY.id("German")
