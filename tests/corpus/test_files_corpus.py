"""Corpora in the layouts in which they are published, as training text and as test text."""

from __future__ import annotations

import gzip
import json
import zipfile
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from manyglot.config.base_settings import parse_settings
from manyglot.corpus.base import Corpus, Split
from manyglot.corpus.files_corpus import FilesSettings
from manyglot.corpus.readers import open_corpus, read_test_rows
from manyglot.errors import ManyglotError
from tests.corpus.test_formats import write
from tests.corpus.test_tmx import TICO_19

EUROPARL = {"Europarl.de-en.de": "eins\nzwei\n", "Europarl.de-en.en": "one\ntwo\n"}
PAIRS = [{"de": "eins", "en": "one"}, {"de": "zwei", "en": "two"}]


def corpus(path: Path, **settings: Any) -> Corpus:
    return open_corpus(parse_settings(FilesSettings, {"path": path, **settings}, parent_name="corpus"))


def train_rows(path: Path, **settings: Any) -> list[Any]:
    return list(corpus(path, **settings).rows(Split.TRAIN))


def write_zip(path: Path, files: dict[str, str]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return path


def flores_200(folder: Path) -> Path:
    codes = ("deu_Latn", "eng_Latn", "zho_Hans", "zho_Hant", "srp_Cyrl")
    files = {f"{split}/{code}.{split}": f"{code} {split}\n" for split in ("dev", "devtest") for code in codes}
    return write(
        folder / "flores200_dataset", {**files, "README": "", "metadata_dev.tsv": "URL\tdomain\nhttp://x\tnews\n"}
    )


def ntrex(folder: Path) -> Path:
    refs = {f"NTREX-128/newstest2019-ref.{code}.txt": f"{code}\n" for code in ("deu", "eng-GB", "eng-US", "srp-Latn")}
    other = {"NTREX-128/newstest2019-src.eng.txt": "eng\n", "LANGUAGES.tsv": "Code\tName\n", "DOCUMENT_IDS.tsv": "x\n"}
    return write(folder / "NTREX", refs | other)


def tatoeba(folder: Path) -> Path:
    files = {f"deu-eng/{s}.{side}": f"{s} {side}\n" for s in ("dev", "test") for side in ("src", "trg")}
    write(folder, {**files, "deu-eng/dev.id": "deu\teng\n", "deu-eng/test.id": "deu\teng\n", "deu-eng/README.md": ""})
    for name, text in {"src": "eins\nzwei\n", "trg": "one\ntwo\n", "id": "Tatoeba\tdeu\teng\n" * 2}.items():
        (folder / "deu-eng" / f"train.{name}.gz").write_bytes(gzip.compress(text.encode()))
    return folder


def test_flores_200_is_test_text_as_published(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (row,) = read_test_rows(flores_200(tmp_path), ["de", "en", "zh", "sr-Cyrl", "fr"])
    assert row == {
        "de": "deu_Latn devtest",
        "en": "eng_Latn devtest",
        "zh": "zho_Hans devtest",
        "sr-Cyrl": "srp_Cyrl devtest",
    }
    (status,) = capsys.readouterr().err.splitlines()
    assert "flores200_dataset: layout flores, 10 files in dev and test, without " in status
    assert "README and 1 other file. Skipping test text in languages that the data lacks: zho_Hant." in status
    assert read_test_rows(tmp_path / "flores200_dataset" / "dev", ["de", "en"])[0]["de"] == "deu_Latn dev"


def test_ntrex_128_is_test_text_as_published(tmp_path: Path) -> None:
    assert read_test_rows(ntrex(tmp_path), ["en", "de", "sr-Latn"]) == [
        {"en": "eng", "de": "deu", "sr-Latn": "srp-Latn"}
    ]
    assert read_test_rows(tmp_path / "NTREX" / "NTREX-128", ["en-GB", "de"]) == [{"en-GB": "eng-GB", "de": "deu"}]


def test_dev_and_test_text_come_from_elsewhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = corpus(write(tmp_path / "opus", EUROPARL), dev=flores_200(tmp_path), test=ntrex(tmp_path))
    assert list(text.rows(Split.TRAIN)) == PAIRS
    assert list(text.rows(Split.DEV)) == [{"de": "deu_Latn dev", "en": "eng_Latn dev"}]
    assert list(text.rows(Split.TEST)) == [{"de": "deu", "en": "eng"}]
    (status,) = capsys.readouterr().err.splitlines()
    assert "opus: layout pairs, 2 files; " in status
    assert "2 languages (not used: eng-GB, eng-US, srp-Latn, srp_Cyrl, zho_Hans, zho_Hant);" in status


def test_opus_pairs_and_their_archives_are_read_as_published(tmp_path: Path) -> None:
    assert train_rows(write(tmp_path / "plain", EUROPARL)) == PAIRS
    assert train_rows(tmp_path / "plain" / "Europarl.de-en") == PAIRS
    with pytest.raises(ManyglotError, match=r"Europarl.de-en.de is one of several files. Give its folder, or"):
        train_rows(tmp_path / "plain" / "Europarl.de-en.de")
    members = {**EUROPARL, "README": "Europarl", "Europarl.de-en.xml": "<cesAlign/>", "Europarl.de-en.ids": "1 1\n"}
    path = write_zip(tmp_path / "de-en.txt.zip", members)
    assert train_rows(path) == PAIRS
    write_zip(tmp_path / "en-pt_BR.txt.zip", {"TED2020.en-pt_BR.en": "three\n", "TED2020.en-pt_BR.pt_BR": "três\n"})
    (tmp_path / "zips").mkdir()
    for archive in tmp_path.glob("*.zip"):
        archive.rename(tmp_path / "zips" / archive.name)
    text = corpus(tmp_path / "zips")
    assert text.languages == ("de", "en", "pt_BR")
    assert list(text.rows(Split.TRAIN)) == [*PAIRS, {"en": "three", "pt_BR": "três"}]
    assert train_rows(tmp_path / "zips", languages=["en", "pt-br"]) == [{"en": "three", "pt_BR": "três"}]
    before = text.fingerprint()
    (tmp_path / "zips" / "en-pt_BR.txt.zip").unlink()
    assert corpus(tmp_path / "zips").fingerprint() != before


def test_the_tatoeba_challenge_is_read_as_published(tmp_path: Path) -> None:
    text = corpus(tatoeba(tmp_path), central_language="eng")
    assert list(text.rows(Split.TRAIN)) == [{"deu": "eins", "eng": "one"}, {"deu": "zwei", "eng": "two"}]
    assert list(text.rows(Split.DEV)) == [{"deu": "dev src", "eng": "dev trg"}]
    assert train_rows(tmp_path / "deu-eng", code_style="bcp47") == PAIRS
    assert read_test_rows(tmp_path / "deu-eng", ["de", "en"]) == [{"de": "test src", "en": "test trg"}]
    (tmp_path / "deu-eng" / "train.id.gz").write_bytes(gzip.compress(b"Tatoeba\tdeu\teng\n"))
    with pytest.raises(ManyglotError, match=r"train.id.gz ends before line 2"):
        train_rows(tmp_path, languages=["de", "en"])


def test_translation_memories_are_read_as_published(tmp_path: Path) -> None:
    write(tmp_path, {"TM/all.en-fr.tmx": TICO_19})
    text = corpus(tmp_path / "TM", languages=["en", "fr"])
    assert next(text.rows(Split.TRAIN))["fr"] == "Lavez-vous les mains et le visage."
    assert list(text.rows(Split.TRAIN))[1] == {"en": "Press Start."}
    archive = write_zip(tmp_path / "all.en-fr.tmx.zip", {"all.en-fr.tmx": TICO_19})
    assert train_rows(archive, languages=["en", "fr"]) == list(text.rows(Split.TRAIN))
    assert read_test_rows(archive, ["en", "pt-br"])[1] == {"en": "Press Start.", "pt-br": "Prima."}


def test_the_tables_of_tico_19_are_read_as_published(tmp_path: Path) -> None:
    header = "sourceLang\ttargetLang\tsourceString\ttargetString\tstringID\turl\tlicense\ttranslator_ID\n"
    files = {
        f"tico19-testset/{split}/{split}.en-{code}.tsv": f"{header}en\t{code}\t{split}\t{code}\t1\tx\ty\tz\n"
        for split in ("dev", "test")
        for code in ("fr", "pt-BR")
    }
    rows = [{"en": "test", "fr": "fr"}, {"en": "test", "pt-br": "pt-BR"}]
    assert read_test_rows(write_zip(tmp_path / "tico19-testset.zip", files), ["en", "fr", "pt-br"]) == rows


FLORES_PLUS = [
    {"id": i, "iso_639_3": code, "iso_15924": "Latn", "glottocode": glottocode, "text": f"{glottocode} {i}"}
    for code, glottocode in (("deu", "stan1295"), ("por", "braz1246"), ("por", "port1283"))
    for i in (0, 1)
]


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
@pytest.mark.parametrize("omitted", [{"no column"}, {"iso_639_3", "iso_15924", "glottocode"}])
def test_flores_plus_is_read_as_published(suffix: str, omitted: set[str], tmp_path: Path) -> None:
    """One table per language and split, whose sentences have the same ids in all languages."""
    names = {"stan1295": "deu_Latn", "braz1246": "por_Latn_braz1246", "port1283": "por_Latn"}
    for split in ("dev", "devtest"):
        (tmp_path / split).mkdir()
        for glottocode, name in names.items():
            path = tmp_path / split / f"{name}.{suffix}"
            records = [{**each, "split": split} for each in FLORES_PLUS if each["glottocode"] == glottocode][::-1]
            records = [{k: v for k, v in each.items() if k not in omitted} for each in records]
            if suffix == "parquet":
                pyarrow.parquet.write_table(pyarrow.Table.from_pylist(records), path)
            else:
                path.write_text("".join(json.dumps(each) + "\n" for each in records))
    rows = [{"de": f"stan1295 {i}", "pt": f"port1283 {i}"} for i in (1, 0)]
    assert read_test_rows(tmp_path, ["de", "pt"]) == rows


def test_glottocodes_distinguish_varieties_in_one_table(tmp_path: Path) -> None:
    lines = [json.dumps(each) for each in FLORES_PLUS]
    write(tmp_path, {"train.jsonl": "\n".join(lines) + "\n"})
    text = corpus(tmp_path, central_language="deu_Latn")
    assert text.languages == ("deu_Latn", "por_Latn_braz1246", "por_Latn_port1283")
    assert list(text.rows(Split.TRAIN))[1] == {
        "deu_Latn": "stan1295 1",
        "por_Latn_braz1246": "braz1246 1",
        "por_Latn_port1283": "port1283 1",
    }
    write(tmp_path, {"train.jsonl": "\n".join([*lines, lines[0]]) + "\n"})
    with pytest.raises(ManyglotError, match=r"train.jsonl, record 7 is the second sentence 0 in deu_Latn"):
        train_rows(tmp_path, central_language="deu_Latn")


def test_files_with_stated_languages_are_a_pair(tmp_path: Path) -> None:
    write(tmp_path, {"newstest.src": "eins\nzwei\n", "newstest.ref": "one\ntwo\n", "notes.txt": ""})
    assert train_rows(tmp_path / "newstest", language_codes={"src": "de", "ref": "en"}) == PAIRS
    write(tmp_path, {"news.yaml": f"path: {tmp_path}\nlanguage_codes: {{src: de, ref: en}}\n"})
    assert read_test_rows(tmp_path / "news.yaml", ["en", "de"]) == PAIRS
    with pytest.raises(ManyglotError, match=r"newstest contains no text in a known layout \(aligned, pairs"):
        train_rows(tmp_path / "newstest")
    (tmp_path / "newstest.ref").unlink()
    with pytest.raises(ManyglotError, match=r"newstest.src has no counterpart"):
        train_rows(tmp_path, language_codes={"src": "de", "ref": "en"})


def test_a_yaml_file_selects_languages_of_a_test_set(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, {f"set/test.{code}": f"{code}\n" for code in ("deu", "eng", "fra")})
    write(tmp_path, {"set.yaml": f"path: {tmp_path}/set\nlanguages: [en, German]\ncode_style: bcp47\n"})
    assert read_test_rows(tmp_path / "set.yaml", None) == [{"de": "deu", "en": "eng"}]
    assert "Skipping test text in languages that are not listed: fra." in capsys.readouterr().err
    with pytest.raises(ManyglotError, match="at least two languages of the data"):
        read_test_rows(tmp_path / "set.yaml", ["fr", "en"])
    assert read_test_rows(tmp_path / "set.yaml", ["eng_Latn", "de", "fr"]) == [{"eng_Latn": "eng", "de": "deu"}]


def test_tables_are_read_with_and_without_a_header(tmp_path: Path) -> None:
    write(tmp_path, {"a/train.tsv": "de\ten\neins\tone\nzwei\ttwo\n", "b/talks.tsv": "eins\tone\nzwei\ttwo\n"})
    assert train_rows(tmp_path / "a") == PAIRS
    assert train_rows(tmp_path / "b", columns=["de", "en"]) == PAIRS
    write(tmp_path, {"c/talks.tsv": "source\ttarget\neins\tone\nzwei\ttwo\n"})
    assert train_rows(tmp_path / "c", language_codes={"source": "de", "target": "en"}) == PAIRS
    (tmp_path / "opus-100" / "de-en").mkdir(parents=True)
    table = pyarrow.Table.from_pylist([{"translation": row} for row in PAIRS])
    for name in ("train", "validation", "test"):
        pyarrow.parquet.write_table(table, tmp_path / "opus-100" / "de-en" / f"{name}-00000-of-00001.parquet")
    text = corpus(tmp_path / "opus-100")
    assert [list(text.rows(split)) for split in Split] == [PAIRS] * 3


def test_aligned_files_and_opus_100_are_read_too(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "a/train.de": "eins\nzwei\n",
            "a/train.en": "one\ntwo\n",
            "a/train.src": "web\n",
            "a/notes-de.de": "?",
            "a/langs.tsv": "code\tname\n",
        },
    )
    assert train_rows(tmp_path / "a") == PAIRS
    write(tmp_path, {f"b/supervised/de-en/opus.de-en-train.{code}": f"{code}\n" for code in ("de", "en")})
    assert train_rows(tmp_path / "b") == [{"de": "de", "en": "en"}]


def test_the_layout_may_be_stated(tmp_path: Path) -> None:
    write(tmp_path, {**EUROPARL, "de-en.tmx": TICO_19})
    with pytest.raises(ManyglotError, match=r"several layouts: pairs \(.*, tmx \(.*Set corpus.layout"):
        train_rows(tmp_path)
    assert train_rows(tmp_path, layout="pairs") == PAIRS
    with pytest.raises(ManyglotError, match="contains no text of layout 'ntrex'"):
        train_rows(tmp_path, layout="ntrex")
    with pytest.raises(ManyglotError, match=r"corpus\.layout"):
        train_rows(tmp_path, layout="moses")


@pytest.mark.parametrize(
    ("files", "settings", "message"),
    [
        ({"Europarl.de-en.de": "eins\n"}, {}, r"Europarl.de-en.de has no counterpart in en. Add the file"),
        ({"deu-eng/train.src": "a\n"}, {}, r"train.src has no counterpart in eng"),
        ({**EUROPARL, "Europarl.de-en.en": "one\n"}, {}, r"Europarl.de-en.en ends before line 2"),
        ({**EUROPARL, "Europarl.de-en.de.gz": ""}, {}, r"de-en.de and .*de-en.de.gz are both text in de. Keep one"),
        ({"train.zzz": "a\n", "train.en": "b\n"}, {}, r"train.zzz: 'zzz' is not a known language code. State the lang"),
        ({"train.Backup": "a\n", "train.en": "b\n"}, {}, r"train.Backup: 'Backup' is not a known language code"),
        ({"train.en": "a\n"}, {}, "at least two languages; this one has en"),
        (EUROPARL, {"languages": ["de", "fr"]}, r"corpus.languages: French \(fr\) is not among .*: de, en\."),
        (EUROPARL, {"columns": ["de", "en"]}, "corpus.columns names the columns of TSV files, but .* has none"),
        (EUROPARL, {"language_codes": {"de": "German!"}}, "'German!' is not a language code such as de"),
        (EUROPARL, {"language_codes": {"de": "en"}}, r"-en.de and .*-en.en are both text in en: 'de' and 'en'. Corr"),
        ({"test.de": "a\n", "test.en": "b\n"}, {}, "contains no training text. Use it as corpus.dev or corpus.test"),
        ({"notes.txt": ""}, {}, "contains no text in a known layout"),
        ({"train-test.tsv": "de\ten\n"}, {}, "more than one of train, dev and test"),
        (
            {"train.jsonl": '{"id": 1, "iso_639_3": "deu", "iso_15924": "Latn", "text": "a"}\n{"id": 2}\n'},
            {},
            "train.jsonl, record 2 lacks iso_15924, iso_639_3, text",
        ),
        (
            {"deu_Latn.jsonl": '{"id": 1, "iso_639_3": "eng", "iso_15924": "Latn", "text": "a"}\n'},
            {},
            "record 1 is in eng_Latn, but the file is named deu_Latn",
        ),
        (
            {"x.tsv": "sourceLang\ttargetLang\tsourceString\ttargetString\nen\t\ta\tb\n"},
            {},
            "x.tsv, record 1: sourceLang and targetLang should name two languages",
        ),
    ],
)
def test_what_cannot_be_read_is_one_line(
    files: dict[str, str], settings: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(ManyglotError, match=message):
        train_rows(write(tmp_path / "text", files), **settings)


def test_a_missing_path_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(ManyglotError, match=r"There is no file or folder .*nowhere, and no file whose name begins so"):
        train_rows(tmp_path / "nowhere")
    with pytest.raises(ManyglotError, match=r"Cannot read .*File name too long"):
        train_rows(tmp_path / ("x" * 1000))


def test_two_spellings_of_a_language_are_refused(tmp_path: Path) -> None:
    write(tmp_path, {"test.en": "a\n", "test.eng": "b\n", "test.de": "c\n"})
    with pytest.raises(ManyglotError, match=r"test.en and .*test.eng are in one language, English"):
        read_test_rows(tmp_path, ["en", "de"])
    write(tmp_path / "text", {"train.de": "a\n", "train.en": "b\n", "dev.deu": "c\n", "dev.en": "d\n"})
    with pytest.raises(ManyglotError, match=r"dev.deu and .*train.de are in one language, German"):
        corpus(tmp_path / "text")


def test_all_languages_of_test_text_are_read_if_none_are_given(tmp_path: Path) -> None:
    write(tmp_path, EUROPARL)
    assert read_test_rows(tmp_path, None) == PAIRS
    write(tmp_path, {"Europarl.de-zzz.de": "eins\n", "Europarl.de-zzz.zzz": "?\n"})
    with pytest.raises(ManyglotError, match=r"de-zzz.zzz: 'zzz' is not a known language code. State the language"):
        read_test_rows(tmp_path, None)
    assert read_test_rows(tmp_path, ["de", "en"]) == PAIRS
