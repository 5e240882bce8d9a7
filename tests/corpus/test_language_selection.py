"""Files, columns and settings may name languages in different styles, but each language in one spelling."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from manyglot.config.base_settings import parse_settings
from manyglot.corpus.base import Corpus, Split
from manyglot.corpus.bilingual import BilingualSettings
from manyglot.corpus.language_selection import match_languages
from manyglot.corpus.languages import Languages
from manyglot.corpus.multiway import MultiwaySettings
from manyglot.corpus.phrasebook import PhrasebookSettings
from manyglot.corpus.readers import (
    corpus_languages,
    count_corpus_translations,
    make_zero_shot_sets,
    open_corpus,
    read_test_rows,
    resolve_train_directions,
)
from manyglot.corpus.table import TableSettings
from manyglot.errors import LanguageError
from tests.corpus.language_code_lists import NTREX_128, OPUS_100, TED_59

KINDS = {"multiway": MultiwaySettings, "bilingual": BilingualSettings, "table": TableSettings}


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def open_kind(kind: str, folder: Path, **settings: Any) -> Corpus:
    return open_corpus(parse_settings(KINDS[kind], {"path": folder, **settings}))  # type: ignore[arg-type]


MIXED_STYLES = {
    "multiway": {
        "train.deu": "eins\n", "train.eng_Latn": "one\n", "train.pt_BR": "um\n",
        "dev.deu": "zwei\n", "dev.pt_BR": "dois\n",
    },
    "bilingual": {
        "train.deu-eng_Latn.deu": "eins\n", "train.deu-eng_Latn.eng_Latn": "one\n",
        "train.eng_Latn-pt_BR.pt_BR": "um\n", "train.eng_Latn-pt_BR.eng_Latn": "one\n",
        "dev.deu-pt_BR.deu": "zwei\n", "dev.deu-pt_BR.pt_BR": "dois\n",
    },
    "table": {
        "train.tsv": "deu\teng_Latn\tpt_BR\neins\tone\tum\n", "dev.tsv": "pt_BR\tdeu\ndois\tzwei\n",
    },
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_a_corpus_may_mix_styles_and_is_shown_in_one(kind: str, tmp_path: Path) -> None:
    write(tmp_path, MIXED_STYLES[kind])
    shown = {
        "as_given": ("deu", "eng_Latn", "pt_BR"),
        "bcp47": ("de", "en", "pt-BR"),
        "iso639-3": ("deu", "eng", "por-BR"),
        "flores": ("deu_Latn", "eng_Latn", "por_Latn_BR"),
    }
    for style, codes in shown.items():
        corpus = open_kind(kind, tmp_path, code_style=style)
        assert sorted(corpus.languages) == sorted(codes)
        german, english, portuguese = codes
        rows = [dict(row) for row in corpus.rows(Split.TRAIN)]
        assert {code: text for row in rows for code, text in row.items()} == {
            german: "eins", english: "one", portuguese: "um",
        }  # fmt: skip
        assert list(corpus.rows(Split.DEV)) == [{german: "zwei", portuguese: "dois"}]


@pytest.mark.parametrize("kind", KINDS)
def test_settings_name_languages_in_any_style(kind: str, tmp_path: Path) -> None:
    write(tmp_path, MIXED_STYLES[kind])
    settings = {"languages": ["German", "EN"], "central_language": "english", "train_directions": ["de>en-US"]}
    corpus = open_kind(kind, tmp_path, **settings)
    assert sorted(corpus.languages) == ["deu", "eng_Latn"]
    parsed = parse_settings(KINDS[kind], {"path": tmp_path, **settings})
    directions = resolve_train_directions(corpus_languages(parsed), parsed)  # type: ignore[arg-type]
    assert list(map(str, directions)) == ["deu→eng_Latn"]


@pytest.mark.parametrize("kind", KINDS)
def test_the_default_central_language_is_found(kind: str, tmp_path: Path) -> None:
    settings = parse_settings(KINDS[kind], {"path": write(tmp_path, MIXED_STYLES[kind]), "code_style": "iso639-3"})
    directions = resolve_train_directions(corpus_languages(settings), settings)  # type: ignore[arg-type]
    assert all("eng" in direction for direction in directions)
    assert count_corpus_translations(settings).central_language == "eng"  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("kind", "files", "message"),
    [
        ("multiway", "train.de train.deu train.en", r"/train\.de and .*/train\.deu are in one language, German,"),
        ("multiway", "train.de train.en dev.deu_Latn", r"dev\.deu_Latn and .*/train\.de are in one"),
        ("multiway", "train.pt-br train.en train.pt_BR", "pt-br and .*pt_BR are in one"),
        ("multiway", "train.zh train.en train.cmn_Hans", "cmn_Hans and .*zh are in one"),
        ("multiway", "train.German train.en train.de", r"train\.German and .*train\.de are in one"),
        (
            "bilingual",
            "train.de-en.de train.de-en.en dev.deu-en.deu dev.deu-en.en",
            r"dev\.deu-en\.deu and .*train\.de-en\.de are in one language, German",
        ),
    ],
)
def test_two_spellings_of_a_language_are_refused(kind: str, files: str, message: str, tmp_path: Path) -> None:
    write(tmp_path, dict.fromkeys(files.split(), "text\n"))
    for languages in ([], ["German", "Chinese", "en", "pt-BR"]):
        with pytest.raises(LanguageError, match=message):
            open_kind(kind, tmp_path, languages=languages)


@pytest.mark.parametrize(
    ("train_header", "dev_header", "message"),
    [
        ("de\tdeu\ten", "de\tdeu\ten", "column de and .*column deu are in one language"),
        ("de\ten\tid", "deu\ten\tid", r"column de of the training text and .*dev\.tsv: column deu are in one language"),
    ],
)
def test_two_columns_of_a_language_are_refused(
    train_header: str, dev_header: str, message: str, tmp_path: Path
) -> None:
    write(tmp_path, {"train.tsv": f"{train_header}\na\tb\tc\n", "dev.tsv": f"{dev_header}\na\tb\tc\n"})
    with pytest.raises(LanguageError, match=message):
        list(open_kind("table", tmp_path).rows(Split.DEV))


def test_a_column_of_numbers_is_no_language(tmp_path: Path) -> None:
    table = "id\tind\ten\n1\tsatu\tone\n"
    for languages in ([], ["ind", "en"]):
        corpus = open_kind("table", write(tmp_path, {"train.tsv": table, "dev.tsv": table}), languages=languages)
        assert list(corpus.rows(Split.DEV)) == [{"ind": "satu", "en": "one"}]


def test_varieties_and_scripts_are_languages_of_their_own(tmp_path: Path) -> None:
    codes = ["en", "pt", "pt-br", "zh", "zh-cn", "zh-tw", "sr_Cyrl", "sr_Latn", "aka", "twi", "no", "nb", "nn"]
    corpus = open_kind("multiway", write(tmp_path, {f"train.{code}": f"{code}\n" for code in codes}))
    assert sorted(corpus.languages) == sorted(codes)


def test_names_of_languages_name_files_and_listed_columns(tmp_path: Path) -> None:
    files = {"train.German": "eins\n", "train.English": "one\n"}
    assert open_kind("multiway", write(tmp_path / "files", files)).languages == ("en", "de")
    write(tmp_path / "table", {"train.tsv": "Name\tGerman\tEnglish\nx\teins\tone\n"})
    corpus = open_kind("table", tmp_path / "table", languages=["de", "eng"], code_style="flores")
    assert list(corpus.rows(Split.TRAIN)) == [{"deu_Latn": "eins", "eng_Latn": "one"}]
    write(tmp_path / "headless", {"train.tsv": "eins\tone\n"})
    corpus = open_kind("table", tmp_path / "headless", columns=["German", "English"])
    assert list(corpus.rows(Split.TRAIN)) == [{"de": "eins", "en": "one"}]


def test_a_language_is_listed_once(tmp_path: Path) -> None:
    write(tmp_path, {"train.de": "a\n", "train.en": "b\n"})
    with pytest.raises(LanguageError, match=r"corpus.languages: deu and German are one language, de\. List it once\."):
        open_kind("multiway", tmp_path, languages=["deu", "en", "German"])
    with pytest.raises(LanguageError, match=r"corpus.languages: Unknown language 'Germn'\. Did you mean de \(German\)"):
        open_kind("multiway", tmp_path, languages=["Germn", "en"])


def test_settings_and_text_agree_before_the_text_exists(tmp_path: Path) -> None:
    settings = MultiwaySettings(path=tmp_path / "later", languages=("German", "en"), code_style="flores")
    assert corpus_languages(settings) == Languages(["deu_Latn", "eng_Latn"])


def test_a_generated_corpus_is_shown_in_one_style() -> None:
    corpus = open_corpus(PhrasebookSettings(languages=("deu", "English"), train_rows=2, code_style="flores"))
    assert corpus.languages == ("deu_Latn", "eng_Latn")
    original = open_corpus(PhrasebookSettings(languages=("de", "en"), train_rows=2))
    assert [list(row.values()) for row in corpus.rows(Split.TRAIN)] == [
        list(row.values()) for row in original.rows(Split.TRAIN)
    ]


def test_test_sets_in_another_style_are_matched(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(
        tmp_path, {f"test.{code}": f"{code}\n" for code in ("deu_Latn", "eng_Latn", "zho_Hans", "zho_Hant", "kin_Latn")}
    )
    assert read_test_rows(tmp_path, ["de", "en", "zh-cn", "zh-tw"]) == [
        {"de": "deu_Latn", "en": "eng_Latn", "zh-cn": "zho_Hans", "zh-tw": "zho_Hant"}
    ]
    assert "languages that the data lacks: kin_Latn." in capsys.readouterr().err
    write(tmp_path, {"test.deu": "other\n"})
    with pytest.raises(LanguageError, match=r"test\.deu and .*test\.deu_Latn are in one language, German"):
        read_test_rows(tmp_path, ["de", "en"])


def test_zero_shot_sets_of_one_style_fit_data_of_another(tmp_path: Path) -> None:
    files = {f"{split}.{code}": f"{code}\n" for split in ("train", "test") for code in ("en", "de", "fr")}
    settings = MultiwaySettings(path=write(tmp_path / "text", files), code_style="flores", central_language="English")
    make_zero_shot_sets(settings, tmp_path / "sets")
    assert (tmp_path / "sets" / "deu_Latn-fra_Latn" / "opus.deu_Latn-fra_Latn-test.deu_Latn").read_text() == "de\n"
    assert read_test_rows(tmp_path / "sets", ["de", "en", "fra"]) == [{"de": "de", "fra": "fr"}]


@pytest.mark.parametrize(
    ("codes", "available", "expected"),
    [
        ("pt pt-br", "por_Latn por_Latn_braz1360", {"pt": "por_Latn", "pt-br": "por_Latn_braz1360"}),
        ("pt pt-br", "por_Latn", {"pt": "por_Latn"}),
        ("no nb nn", "nob_Latn nno_Latn", {"nb": "nob_Latn", "nn": "nno_Latn"}),
        ("no", "nob_Latn nno_Latn", {"no": "nob_Latn"}),
        ("sr sh", "srp_Cyrl", {"sr": "srp_Cyrl"}),
        ("sh sr", "srp-Latn srp-Cyrl", {"sh": "srp-Latn", "sr": "srp-Cyrl"}),
        ("fr-ca", "fra", {"fr-ca": "fra"}),
        ("en", "eng-GB eng-IN eng-US", {"en": "eng-US"}),
        ("zho_Hant", "zho_Hans", {}),
        ("qaa", "qaa_Latn qab_Latn", {"qaa": "qaa_Latn"}),
    ],
)
def test_languages_are_matched_one_to_one(codes: str, available: str, expected: dict[str, str]) -> None:
    assert match_languages(codes.split(), available.split(), "the files") == expected


def test_an_ambiguous_match_is_refused() -> None:
    with pytest.raises(LanguageError, match=r"'es' is ambiguous among the files: it may be es_AR or es_MX\. Keep one"):
        match_languages(["es", "de"], ["es_AR", "es_MX"], "the files")


def test_chinese_of_opus_and_ted_is_found_in_ntrex() -> None:
    assert match_languages(OPUS_100, NTREX_128, "NTREX-128")["zh"] == "zho-CN"
    matches = match_languages(TED_59, NTREX_128, "NTREX-128")
    assert (matches["zh-cn"], matches["zh-tw"], matches["pt-br"]) == ("zho-CN", "zho-TW", "por-BR")
    assert "zh" not in matches
