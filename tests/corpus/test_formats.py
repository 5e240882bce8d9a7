"""The published layouts of TED-59 and OPUS-100, tables in three formats, and compressed files."""

from __future__ import annotations

import gzip
import json
import lzma
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest
import zstandard

from manyglot.config.base_settings import parse_settings
from manyglot.corpus.base import Corpus, Split
from manyglot.corpus.bilingual import BilingualSettings
from manyglot.corpus.languages import Direction, Languages
from manyglot.corpus.multiway import MultiwaySettings
from manyglot.corpus.readers import corpus_languages, open_corpus, resolve_train_directions
from manyglot.corpus.table import TableSettings
from manyglot.corpus.textfiles import read_lines
from manyglot.errors import ManyglotError

COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".xz": lzma.compress,
    ".zst": zstandard.compress,
}


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def table(folder: Path, **settings: Any) -> Corpus:
    return open_corpus(TableSettings(path=folder, **settings))


def test_ted_59_is_read_as_published(tmp_path: Path) -> None:
    """The TSV of Qi et al.: a column per language, `calv` without text, markers of missing cells, tags before text."""
    header = "talk_name\tar\tcalv\ten\tpt-br"
    write(
        tmp_path,
        {
            "all_talks_train.tsv": f'{header}\nt1\t__en__ مرحبا\t__NULL__\tHello "there\t__en__ Olá\n'
            "t1\t_ _ NULL _ _\t\tBye\t__NULL__\n",
            "all_talks_dev.tsv": f"{header}\nt2\tنعم\t\tYes\tSim\n",
            "all_talks_test.tsv": f"{header}\nt3\t__NULL__\t\tNo\tNão\n",
        },
    )
    corpus = table(tmp_path)
    assert corpus.languages == ("ar", "en", "pt-br")
    assert list(corpus.rows(Split.TRAIN)) == [{"ar": "مرحبا", "en": 'Hello "there', "pt-br": "Olá"}, {"en": "Bye"}]
    assert list(corpus.rows(Split.DEV)) == [{"ar": "نعم", "en": "Yes", "pt-br": "Sim"}]
    assert list(corpus.rows(Split.TEST)) == [{"en": "No", "pt-br": "Não"}]
    assert table(tmp_path, languages=("en", "ar")).languages == ("en", "ar")


def test_opus_100_is_read_as_published(tmp_path: Path) -> None:
    """Supervised and zero-shot pairs; an-en has neither dev nor test."""
    files = {
        f"supervised/de-en/opus.de-en-{split}.{code}": f"{code} {split}\n"
        for split in ("train", "dev", "test")
        for code in ("de", "en")
    }
    files |= {f"supervised/an-en/opus.an-en-train.{code}": f"{code} an\n" for code in ("an", "en")}
    files |= {f"zero-shot/de-fr/opus.de-fr-test.{code}": f"{code} zero\n" for code in ("de", "fr")}
    files |= {"supervised/de-en/README": "unrelated"}
    corpus = open_corpus(BilingualSettings(path=write(tmp_path, files)))
    assert corpus.languages == ("an", "de", "en", "fr")
    assert list(corpus.rows(Split.TRAIN)) == [{"an": "an an", "en": "en an"}, {"de": "de train", "en": "en train"}]
    assert list(corpus.rows(Split.TEST)) == [{"de": "de test", "en": "en test"}, {"de": "de zero", "fr": "fr zero"}]


@pytest.mark.parametrize(
    "name",
    [
        "{split}.de-en.{code}",
        "de-en.{split}.{code}",
        "de-en/{split}.{code}",
        "{split}/de-en.{code}",
        "de_en/{split}.{code}",
        "de_en/ted-{split}.orig.{code}",
    ],
)
@pytest.mark.parametrize("dev", ["dev", "valid"])
def test_file_pairs_are_found_under_common_naming_schemes(name: str, dev: str, tmp_path: Path) -> None:
    files = {name.format(split=s, code=c): f"{c} {s}\n" for s in ("train", dev, "test") for c in ("de", "en")}
    corpus = open_corpus(BilingualSettings(path=write(tmp_path, files)))
    assert list(corpus.rows(Split.TRAIN)) == [{"de": "de train", "en": "en train"}]
    assert list(corpus.rows(Split.DEV)) == [{"de": f"de {dev}", "en": f"en {dev}"}]


def test_all_table_formats_are_equivalent(tmp_path: Path) -> None:
    rows: list[dict[str, str | None]] = [
        {"de": "eins", "en": "one"},
        {"de": None, "en": "two"},
        {"de": "drei", "en": ""},
    ]
    (tmp_path / "tsv").mkdir()
    lines = ["de\ten", *(f"{row['de'] or ''}\t{row['en']}" for row in rows)]
    write(tmp_path, {"tsv/train.tsv": "\n".join(lines) + "\n"})
    write(tmp_path, {"jsonl/train.jsonl": "".join(json.dumps(row) + "\n" for row in rows)})
    write(tmp_path, {"nested/train.jsonl": "".join(json.dumps({"translation": row}) + "\n" for row in rows)})
    (tmp_path / "parquet").mkdir()
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "parquet" / "train-00000.parquet")
    for kind in ("tsv", "jsonl", "nested", "parquet"):
        read = list(table(tmp_path / kind).rows(Split.TRAIN))
        assert read == [{"de": "eins", "en": "one"}, {"en": "two"}, {"de": "drei"}], kind


@pytest.mark.parametrize("ending", COMPRESS)
def test_compressed_files_are_decompressed(ending: str, tmp_path: Path) -> None:
    for name, text in {"train.de": "eins\nzwei\n", "train.en": "one\n\n"}.items():
        (tmp_path / f"{name}{ending}").write_bytes(COMPRESS[ending](text.encode()))
    corpus = open_corpus(MultiwaySettings(path=tmp_path))
    assert list(corpus.rows(Split.TRAIN)) == [{"de": "eins", "en": "one"}, {"de": "zwei"}]
    (tmp_path / f"train.en{ending}").write_bytes(COMPRESS[ending](b"one\n" * 999)[:-9])
    with pytest.raises(ManyglotError, match=r"train\.en.* is truncated"):
        list(read_lines(tmp_path / f"train.en{ending}"))


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"train.tsv": "de\ten\neins\tone\nzwei\n"}, "train.tsv, line 3 has 1 cells, but the first line has 2"),
        ({"train.tsv": "de\tde\neins\tone\n"}, "the same column name twice"),
        (
            {"train.tsv": "Guten Tag.\tGood day.\n"},
            r"names no language: 'Guten Tag\.', … .* corpus.columns: \[de, en\] .* option --columns",
        ),
        ({"train.tsv": "Ja.\tJa.\n"}, "names no language"),
        ({"train.jsonl": '{"de": "a", "en": "b"}\nnonsense\n'}, "train.jsonl, line 2 is not a JSON object"),
        ({"train.parquet": "nonsense"}, "cannot be read as Parquet"),
        ({"train.jsonl": '{"translation": null}\n'}, "train.jsonl, line 1 is not a JSON object"),
        ({"train.jsonl": '{"de": "a", "en": ["b"]}\n', "dev.tsv": "de\n"}, "should be text, got"),
        ({"train.jsonl": '{"de": "a \\ud800 b", "en": "b"}\n'}, "record 1 is not UTF-8"),
        ({"train.jsonl": '{"de": "a", "en": "b", "de": "c"}\n'}, "line 1 has two values of 'de'. Remove one of them"),
        ({"train.jsonl": '{"translation": "a"}\n'}, "train.jsonl, line 1 is not a JSON object"),
        ({"train.jsonl": '{"de": ' + "[" * 5000 + "\n"}, "train.jsonl, line 1 is not a JSON object"),
        ({"train.jsonl": '{"de": ' + "1" * 5000 + "}\n"}, "train.jsonl, line 1 is not a JSON object"),
        ({"train.jsonl": '{"en": "a", "de": ' + "1" * 4000 + "}\n"}, r"should be text, got 1+\.\.\.1+\."),
        ({"train.jsonl": '{"de": "a \\u0000 b", "en": "b"}\n'}, "record 1: a sentence has a NUL character"),
        ({"train.tsv": "de\ten\neins\0\tone\n"}, "train.tsv, line 2 has a NUL byte. Convert UTF-16 to UTF-8"),
        ({"train.tsv": "de\ten\neins\t" + "a" * 2**22}, "train.tsv, line 2 is longer than 4,194,304 bytes"),
        ({"train-test.tsv": "de\ten\n"}, "more than one of train, dev and test"),
        ({"notes.txt": ""}, "contains no training table. Name it train.tsv"),
    ],
)
def test_malformed_tables_are_refused(files: dict[str, str], message: str, tmp_path: Path) -> None:
    with pytest.raises(ManyglotError, match=message):
        list(table(write(tmp_path, files), languages=("de", "en")).rows(Split.TRAIN))


def test_columns_of_a_table_without_header_are_a_setting(tmp_path: Path) -> None:
    write(tmp_path, {"train.tsv": "7\teins\tone\n8\t\ttwo\n", "dev.tsv": "9\tdrei\tthree\n", "test.tsv": ""})
    corpus = table(tmp_path, columns=("talk", "de", "en"))
    assert corpus.languages == ("de", "en")
    assert list(corpus.rows(Split.TRAIN)) == [{"de": "eins", "en": "one"}, {"en": "two"}]
    assert list(corpus.rows(Split.DEV)) == [{"de": "drei", "en": "three"}]
    assert list(corpus.rows(Split.TEST)) == []


def test_a_dev_table_needs_a_header_too(tmp_path: Path) -> None:
    corpus = table(write(tmp_path, {"train.tsv": "de\ten\neins\tone\n", "dev.tsv": "Zwei.\tTwo.\n"}))
    with pytest.raises(ManyglotError, match=r"dev.tsv: the first line names no language: 'Zwei\.'"):
        list(corpus.rows(Split.DEV))


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (["de", "en", "fr"], "train.tsv, line 1 has 2 cells, but corpus.columns has 3"),
        (["de", "en"], "the first line already names the columns. Remove corpus.columns"),
        (["de", "de"], "corpus.columns: two columns have the same name"),
        (
            ["Klingonish", "text"],
            "corpus.columns: no column is named by a language code such as de; got Klingonish, text",
        ),
        ("de", r"corpus.columns should be a list, such as \[a, b\], got 'de'"),
        ([False, "en"], "corpus.columns.0"),
    ],
)
def test_wrong_columns_are_refused(columns: object, message: str, tmp_path: Path) -> None:
    write(tmp_path, {"train.tsv": "de\ten\neins\tone\n"})
    with pytest.raises(ManyglotError, match=message):
        open_corpus(parse_settings(TableSettings, {"path": tmp_path, "columns": columns}, parent_name="corpus"))


def test_columns_without_tsv_are_refused(tmp_path: Path) -> None:
    write(tmp_path, {"train.jsonl": '{"de": "eins", "en": "one"}\n'})
    with pytest.raises(ManyglotError, match=r"corpus.columns names the columns of TSV files, but .* has none"):
        table(tmp_path, columns=("de", "en"))


@pytest.mark.parametrize("ending", ["", *COMPRESS])
def test_only_newlines_end_lines(ending: str, tmp_path: Path) -> None:
    path, compress = tmp_path / f"train.de{ending}", COMPRESS.get(ending, bytes)
    path.write_bytes(compress(b"eins\r\nzwei \r drei\r\n"))
    assert list(read_lines(path)) == ["eins", "zwei \r drei"]
    path.write_bytes(compress(b"eins\rzwei\rdrei\r"))
    with pytest.raises(ManyglotError, match=r"train\.de.* separates lines with carriage returns"):
        list(read_lines(path))


def test_a_duplicate_file_is_refused(tmp_path: Path) -> None:
    write(tmp_path, {"train.de": "a\n", "train.en": "b\n"})
    (tmp_path / "train.de.gz").write_bytes(gzip.compress(b"other\n"))
    with pytest.raises(ManyglotError, match=r"both train\.de and train\.de\.gz"):
        open_corpus(MultiwaySettings(path=tmp_path))


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, "de>en en>de en>fr fr>en"),
        ({"central_language": None}, "de>en de>fr en>de en>fr fr>de fr>en"),
        ({"central_language": None, "exclude_directions": ["de>fr", "fr>de"]}, "de>en en>de en>fr fr>en"),
        ({"exclude_directions": ["en>de"]}, "de>en en>fr fr>en"),
        ({"train_directions": ["fr>de", "de→en", "fr>de"]}, "fr>de de>en"),
    ],
)
def test_settings_select_the_training_directions(settings: dict[str, Any], expected: str) -> None:
    languages = Languages(["de", "en", "fr"])
    directions = resolve_train_directions(languages, MultiwaySettings(path=Path(), **settings))
    assert directions == [Direction(*text.split(">")) for text in expected.split()]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"train_directions": ["de-en"]}, "'de-en' is not a direction such as de>en"),
        ({"exclude_directions": ["de>xx"]}, "Unknown language 'xx'"),
        ({"train_directions": ["de>de"]}, "'de>de' has the same source and target language"),
        ({"train_directions": ["de>en"], "exclude_directions": ["de>en"]}, "leaves no directions to train on"),
    ],
)
def test_invalid_directions_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ManyglotError, match=message):
        resolve_train_directions(Languages(["de", "en", "fr"]), MultiwaySettings(path=Path(), **settings))


def test_a_corpus_without_text_has_the_listed_languages(tmp_path: Path) -> None:
    settings = TableSettings(path=tmp_path / "later", languages=("de", "en"))
    assert corpus_languages(settings).codes == ("de", "en")
    with pytest.raises(ManyglotError, match="at least two languages"):
        corpus_languages(TableSettings(path=tmp_path / "later", languages=("en",)))


def test_an_unknown_language_is_refused_unless_listed(tmp_path: Path) -> None:
    write(tmp_path, {"train.de": "a\n", "train.en": "b\n", "train.xyz": "web\n"})
    with pytest.raises(ManyglotError, match=r"train\.xyz: 'xyz' is not a language code .* list the languages"):
        open_corpus(MultiwaySettings(path=tmp_path))
    assert open_corpus(MultiwaySettings(path=tmp_path, languages=("de", "en"))).languages == ("de", "en")
    assert open_corpus(MultiwaySettings(path=tmp_path, languages=("de", "en", "xyz"))).languages[-1] == "xyz"


def test_numeric_columns_are_not_languages_and_later_columns_are_found(tmp_path: Path) -> None:
    lines = ['{"id": "1", "de": "eins", "en": "one"}', '{"id": "2", "de": "zwei", "en": "two", "fr": "deux"}']
    corpus = table(write(tmp_path, {"train.jsonl": "\n".join(lines) + "\n", "validation.jsonl": lines[1] + "\n"}))
    assert corpus.languages == ("de", "en", "fr")
    assert list(corpus.rows(Split.DEV)) == [{"de": "zwei", "en": "two", "fr": "deux"}]


def test_markers_and_tags_are_removed(tmp_path: Path) -> None:
    cells = "de\ten \n__de__\t__en__ __NULL__\n__de__ eins\t__init__ one __de__ two\n"
    corpus = table(write(tmp_path, {"train.tsv": cells}), languages=("de", "en"))
    assert list(corpus.rows(Split.TRAIN)) == [{}, {"de": "eins", "en": "__init__ one __de__ two"}]
