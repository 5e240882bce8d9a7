"""Codes of published corpora are distinct, known and written in any style without loss."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manyglot.corpus.language_codes import CodeStyle, format_language_code, parse_language_code
from manyglot.corpus.language_selection import match_languages
from manyglot.corpus.languages import (
    Languages,
    check_language_code,
    english_language_name,
    is_known_language_code,
)
from manyglot.errors import LanguageError
from tests.corpus.language_code_lists import CODE_LISTS, FLORES_200, NTREX_128

ALL_CODES = sorted({code for codes in CODE_LISTS.values() for code in codes})
STYLES: list[CodeStyle] = ["as_given", "bcp47", "iso639-3", "flores"]
SIZES = {"FLORES-200": 204, "FLORES+": 227, "NTREX-128": 128, "OPUS-100": 100, "TED-59": 59}


@pytest.mark.parametrize("name", CODE_LISTS)
def test_the_codes_of_a_list_are_known_and_distinct_languages(name: str) -> None:
    codes = CODE_LISTS[name]
    assert len({parse_language_code(code).minimal for code in codes}) == len(codes) == SIZES[name]
    assert [code for code in codes if not is_known_language_code(code)] == []


@given(st.sampled_from(ALL_CODES), st.sampled_from(STYLES), st.sampled_from(STYLES))
def test_styles_are_converted_without_loss(code: str, style: CodeStyle, other_style: CodeStyle) -> None:
    converted = check_language_code(format_language_code(code, style))
    assert parse_language_code(converted).minimal == parse_language_code(code).minimal
    if other_style != "as_given":
        assert format_language_code(converted, other_style) == format_language_code(code, other_style)


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("name", CODE_LISTS)
def test_every_list_is_found_in_every_style(name: str, style: CodeStyle) -> None:
    codes = CODE_LISTS[name]
    converted = {format_language_code(code, style): code for code in codes}
    assert len(converted) == len(codes)
    assert match_languages(codes, converted, "the list") == {code: other for other, code in converted.items()}
    languages = Languages(codes)
    assert {other: languages.find_code(other) for other in converted} == converted


def test_flores_style_is_that_of_flores_200() -> None:
    assert [format_language_code(code, "flores") for code in FLORES_200] == FLORES_200


@pytest.mark.parametrize(
    ("codes", "bcp47", "iso639_3", "flores"),
    [
        ("de deu ger deu_Latn DE de-Latn", "de", "deu", "deu_Latn"),
        ("de-DE de_de deu-DE", "de-DE", "deu-DE", "deu_Latn_DE"),
        ("zh zho chi cmn zh-Hans zho_Hans cmn_Hans", "zh", "zho", "zho_Hans"),
        ("zh-Hant zho_Hant cmn_Hant", "zh-Hant", "zho-Hant", "zho_Hant"),
        ("zh_CN zho-CN zh-Hans-CN", "zh-CN", "zho-CN", "zho_Hans_CN"),
        ("pt-BR pt_br por-BR por_Latn_braz1360", "pt-BR", "por-BR", "por_Latn_BR"),
        ("sr srp srp_Cyrl scc", "sr", "srp", "srp_Cyrl"),
        ("sh srp-Latn sr_Latn hbs", "sr-Latn", "srp-Latn", "srp_Latn"),
        ("fa fas per pes_Arab", "fa", "fas", "pes_Arab"),
        ("prs prs_Arab fa-AF", "fa-AF", "prs", "prs_Arab"),
        ("ar ara arb arb_Arab", "ar", "ara", "arb_Arab"),
        ("arb_Latn", "ar-Latn", "ara-Latn", "arb_Latn"),
        ("tl fil tgl_Latn", "fil", "fil", "tgl_Latn"),
        ("ko kor_Hang kor_Kore", "ko", "kor", "kor_Hang"),
        ("tw twi twi_Latn twi_Latn_asan1239", "tw", "twi", "twi_Latn"),
        ("ak aka_Latn twi_Latn_akua1239", "ak", "aka", "aka_Latn"),
        ("ca-valencia cat_Latn_vale1252", "ca-valencia", "cat-valencia", "cat_Latn_valencia"),
        ("qaa", "qaa", "qaa", "qaa"),
    ],
)
def test_spellings_of_one_language_are_shown_alike(codes: str, bcp47: str, iso639_3: str, flores: str) -> None:
    for code in codes.split():
        shown = [format_language_code(code, style) for style in ("bcp47", "iso639-3", "flores")]
        assert shown == [bcp47, iso639_3, flores]


@pytest.mark.parametrize("code", FLORES_200)
def test_the_english_names_of_flores_languages_are_found(code: str) -> None:
    name = english_language_name(code)
    assert name != code
    assert Languages(FLORES_200).find_code(name) == code


def test_english_names_omit_the_usual_script() -> None:
    assert [english_language_name(code) for code in ("deu_Latn", "srp_Cyrl", "srp_Latn", "zho_Hans", "acm_Arab")] == [
        "German", "Serbian", "Serbian (Latn)", "Chinese (Hans)", "Mesopotamian Arabic",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "codes", "code"),
    [
        ("zh", "zho_Hans zho_Hant", "zho_Hans"),
        ("ar", "arb_Arab arb_Latn arz_Arab", "arb_Arab"),
        ("ace-Arab", "ace_Arab ace_Latn", "ace_Arab"),
        ("ps", "pbt_Arab", "pbt_Arab"),
        ("Akan", "aka_Latn twi_Latn", "aka_Latn"),
        ("twi", "aka_Latn twi_Latn", "twi_Latn"),
        ("twi", "ak de", "ak"),
        ("sr_Latn", "hr sh sr", "sh"),
        ("sr_Cyrl", "hr sh sr", "sr"),
        ("fa", "pes_Arab prs_Arab", "pes_Arab"),
        ("prs", "fas prs", "prs"),
        ("sqi", "als_Latn", "als_Latn"),
        ("tzm", "tzm_Tfng", "tzm_Tfng"),
        ("South Levantine Arabic", "ajp_Arab apc_Arab", "ajp_Arab"),
        ("por_Latn_braz1360", "por_Latn", "por_Latn"),
    ],
)
def test_codes_are_found_in_other_styles(name: str, codes: str, code: str) -> None:
    assert Languages(codes.split()).find_code(name) == code


@pytest.mark.parametrize(
    ("name", "codes"), [("zho_Hant", "zho_Hans"), ("arb_Latn", "ar de"), ("srp_Latn", "srp_Cyrl"), ("ckb", "kmr_Latn")]
)
def test_scripts_and_related_languages_are_kept_apart(name: str, codes: str) -> None:
    with pytest.raises(LanguageError, match="is not among the model's languages"):
        Languages(codes.split()).find_code(name)


def test_looking_up_all_of_ntrex_among_flores_is_exact() -> None:
    matches = match_languages(NTREX_128, FLORES_200, "FLORES-200")
    missing = "div eng-GB eng-IN eng-US fra-CA fuc hmn mey nde por-BR shi spa-MX srp-Latn tah ton ven"
    assert " ".join(sorted(set(NTREX_128) - set(matches))) == missing
    changed = {code: match for code, match in matches.items() if match[:3] != code[:3]}
    assert changed == {
        "aze-Latn": "azj_Latn", "fas": "pes_Arab", "fil": "tgl_Latn", "lav": "lvs_Latn", "mlg": "plt_Latn",
        "mon": "khk_Cyrl", "msa": "zsm_Latn", "nep": "npi_Deva", "orm": "gaz_Latn", "pus": "pbt_Arab",
        "sqi": "als_Latn", "swa": "swh_Latn", "uzb": "uzn_Latn",
    }  # fmt: skip
    assert (matches["zho-CN"], matches["zho-TW"]) == ("zho_Hans", "zho_Hant")


def test_importing_manyglot_does_not_load_cldr() -> None:
    script = (
        "import sys, manyglot.cli; print('babel.core' in sys.modules and bool(__import__('babel').core._global_data))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
