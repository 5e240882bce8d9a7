from __future__ import annotations

import io
import os
import random
import resource
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from manyglot.corpus.base import Split
from manyglot.corpus.table import TableCorpus, TableSettings
from manyglot.errors import CorpusError, ManyglotError

ROWS = [{"de": f"Satz über {number}", "en": f"sentence {number}", "id": number} for number in range(100)]
EXPECTED = [{"de": row["de"], "en": row["en"]} for row in ROWS]


def to_parquet(table: pyarrow.Table, **options: Any) -> bytes:
    file = io.BytesIO()
    pyarrow.parquet.write_table(table, file, **options)
    return file.getvalue()


def read(folder: Path, content: bytes | None = None) -> list[Any]:
    if content is not None:
        (folder / "train.parquet").write_bytes(content)
    return list(TableCorpus(TableSettings(path=folder)).rows(Split.TRAIN))


def read_or_error(folder: Path, content: bytes) -> list[Any] | str:
    try:
        return read(folder, content)
    except ManyglotError as error:
        return str(error)


@pytest.mark.parametrize("is_nested", [False, True])
def test_a_damaged_file_is_one_line_in_little_memory(is_nested: bool, tmp_path: Path) -> None:
    """In pages with checksums, all damage is noticed. Damaged metadata may rename a column, but never loses rows."""
    rng = random.Random(1)
    rows = [{"translation": {"de": row["de"], "en": row["en"]}} for row in ROWS] if is_nested else ROWS
    content = to_parquet(pyarrow.Table.from_pylist(rows), compression="none", write_page_checksum=True)
    metadata_start = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for number in range(100):
        in_pages, damaged = number < 50, bytearray(content)
        position = rng.randrange(4, metadata_start) if in_pages else rng.randrange(metadata_start, len(content))
        damaged[position] ^= rng.choice((1 << rng.randrange(8), rng.randrange(1, 256)))
        outcome = read_or_error(tmp_path, bytes(damaged))
        if isinstance(outcome, str):
            assert "train.parquet" in outcome
            assert len(outcome) < 500
        else:
            assert outcome == EXPECTED if in_pages else len(outcome) == len(ROWS)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 2**19, "kibibytes"


def test_invalid_utf8_in_a_string_is_refused(tmp_path: Path) -> None:
    content = to_parquet(pyarrow.Table.from_pylist(ROWS), compression="none", use_dictionary=False)
    with pytest.raises(CorpusError, match=r"train\.parquet cannot be read as Parquet \('utf-8' codec"):
        read(tmp_path, content.replace("Satz über 7".encode(), b"Satz \xc3\xc3ber 7", 1))


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"translation": pyarrow.array(["a"])}, "the column 'translation' has the type string. Make it a struct"),
        (
            {"translation": pyarrow.array([[("de", "a")]], pyarrow.map_(pyarrow.string(), pyarrow.string()))},
            r"the column 'translation' has the type map<string, string",
        ),
        ({"de": pyarrow.array([["a"]]), "en": pyarrow.array(["a"])}, r"a sentence should be text, got \['a'\]"),
        ({"de": pyarrow.array(["a\0b"]), "en": pyarrow.array(["a"])}, "record 1: a sentence has a NUL character"),
        ({"de": pyarrow.array(["a" * 2**23]), "en": pyarrow.array(["a"])}, "has more than 4,194,304 bytes. Shorten"),
    ],
)
def test_columns_of_the_wrong_type_are_refused(columns: dict[str, Any], message: str, tmp_path: Path) -> None:
    (tmp_path / "train.parquet").write_bytes(to_parquet(pyarrow.table(columns)))
    corpus = TableSettings(path=tmp_path, languages=("de", "en"))
    with pytest.raises(CorpusError, match=message):
        list(TableCorpus(corpus).rows(Split.TRAIN))


def test_a_column_named_twice_is_refused(tmp_path: Path) -> None:
    texts = pyarrow.array(["a"])
    twice = pyarrow.Table.from_arrays([texts, texts, texts], names=["de", "en", "de"])
    nested = pyarrow.StructArray.from_arrays([texts, texts], names=["en", "en"])
    for table, name in ((twice, "de"), (pyarrow.table({"translation": nested}), "en")):
        with pytest.raises(CorpusError, match=rf"train\.parquet has two columns named '{name}'"):
            read(tmp_path, to_parquet(table))


def test_a_missing_translation_is_an_empty_row(tmp_path: Path) -> None:
    table = pyarrow.table({"translation": [None, {"de": "a", "en": "b"}]})
    assert read(tmp_path, to_parquet(table)) == [{}, {"de": "a", "en": "b"}]


def test_a_table_with_a_false_number_of_rows_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = to_parquet(pyarrow.Table.from_pylist(ROWS))
    batches = pyarrow.parquet.ParquetFile.iter_batches

    def lose_rows(*arguments: Any, **options: Any) -> Any:
        return (batch.slice(0, 44) for batch in batches(*arguments, **options))

    monkeypatch.setattr(pyarrow.parquet.ParquetFile, "iter_batches", lose_rows)
    with pytest.raises(CorpusError, match="it has 44 rows instead of 100"):
        read(tmp_path, content)


def test_a_pipe_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "train.parquet")
    with pytest.raises(ManyglotError, match=r"train\.parquet is not a file"):
        read(tmp_path)
