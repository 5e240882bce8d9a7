"""Reader of tables with one column per language: TSV, JSONL or Parquet, such as the TED talks of Qi et al. (2018).

A split may have several files; `train`, `dev` or `test` in the name assigns a file to its split. A cell that is empty
or contains one of the `missing_markers` means that the language lacks this sentence. A tag such as `__en__` at the
beginning of a cell, which the reader of the TED talks writes, is removed.
"""

from __future__ import annotations

import json
import re
import reprlib
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import field_validator

from manyglot.config.base_settings import CHANGEABLE_ON_RESUME
from manyglot.corpus.base import SPLIT_ALIASES, BaseCorpusSettings, Row, Split
from manyglot.corpus.decompression import uncompressed_name
from manyglot.corpus.language_lookup import possible_languages
from manyglot.corpus.language_selection import check_spelled_once, select_languages
from manyglot.corpus.languages import looks_like_language_code
from manyglot.corpus.parquet import NESTED_COLUMN, first_repeated, read_parquet
from manyglot.corpus.textfiles import MAX_LINE_BYTES, fingerprint_files, read_lines, to_single_line
from manyglot.errors import CorpusError

TABLE_SUFFIXES = (".tsv", ".jsonl", ".parquet")
_EXAMPLE_CODES = ("de", "en", "fr", "es")
_LANGUAGE_TAG = re.compile(r"^__[a-z]{2,3}([_-][A-Za-z]+)*__(\s+|$)")


class TableSettings(BaseCorpusSettings):
    """Tables with one column per language: TSV, JSONL or Parquet, such as the TED talks."""

    kind: Literal["table"] = "table"
    """The kind of corpus: files such as train.tsv, all_talks_dev.tsv, test.jsonl or train.parquet."""
    path: Annotated[Path, CHANGEABLE_ON_RESUME]
    """The folder, or a single table that is all training text."""
    languages: tuple[str, ...] = ()
    """The languages to use, in any style of code; empty uses all columns that are named by a language code and have
    training text."""
    columns: tuple[str, ...] = ()
    """The columns of TSV files without a header, such as [de, en] or [id, German, English]; empty reads the names from
    the first line."""
    missing_markers: tuple[str, ...] = ("__NULL__", "_ _ NULL _ _")
    """Cell contents that mark a missing sentence, in addition to the empty string."""

    @field_validator("columns")
    @classmethod
    def _columns_name_languages(cls, columns: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(columns)) < len(columns):
            raise ValueError("two columns have the same name.")
        if columns and not any(map(_names_language, columns)):
            raise ValueError(f"no column is named by a language code such as de; got {', '.join(columns)}.")
        return columns


class TableCorpus:
    """The rows of the tables, one file after the other."""

    def __init__(self, settings: TableSettings) -> None:
        folder = settings.path
        if not folder.is_dir() and not (folder.is_file() and is_table_file(folder)):
            raise CorpusError(
                f"corpus.path: {folder} is neither a folder with files such as train.tsv nor a table itself "
                f"({', '.join(TABLE_SUFFIXES)})."
            )
        self._missing_markers, self._columns = set(settings.missing_markers), settings.columns
        self._allows_names = bool(settings.languages or settings.columns)
        self._files = {split: _table_files(folder, split) for split in Split}
        if not self._files[Split.TRAIN]:
            raise CorpusError(f"{folder} contains no training table. Name it train.tsv, train.jsonl or train.parquet.")
        if settings.columns and not any(_is_tsv(path) for files in self._files.values() for path in files):
            raise CorpusError(f"corpus.columns names the columns of TSV files, but {folder} has none. Remove it.")
        self._training_columns = self._first_columns()
        columns = self._training_columns if settings.languages else self._columns_with_text()
        sources = {name: f"{folder}: column {name}" for name in columns}
        self._codes = select_languages(sources, settings.languages, settings.code_style, f"the columns of {folder}")
        self.languages = tuple(self._codes.values())

    def rows(self, split: Split) -> Iterator[Row]:
        """Read the sentences of a split; a row omits languages whose cell is empty."""
        checked: set[str] = set()
        for path in self._files[split]:
            for number, record in enumerate(self._read_records(path), start=1):
                if not checked.issuperset(record):
                    self._check_columns(record, path)
                    checked.update(record)
                cells = {
                    code: self._cell_sentence(record.get(name), path, number) for name, code in self._codes.items()
                }
                yield {code: sentence for code, sentence in cells.items() if sentence}

    def fingerprint(self) -> str:
        """A digest of the files' names, sizes and modification times."""
        return fingerprint_files(path for files in self._files.values() for path in files)

    def _read_records(self, path: Path) -> Iterator[Mapping[str, Any]]:
        match Path(uncompressed_name(path)).suffix:
            case ".tsv":
                return _read_tsv(path, self._columns)
            case ".jsonl":
                return _read_jsonl(path)
            case _:
                return read_parquet(path, self._may_be_language)

    def _may_be_language(self, name: str) -> bool:
        return _names_language(name) if self._allows_names else looks_like_language_code(name)

    def _cell_sentence(self, value: Any, path: Path, number: int) -> str:
        """The sentence in a cell, or an empty string. `number` is the record number, for error messages."""
        if value is None or value != value:  # null or NaN
            return ""
        try:
            text = value.decode("utf-8") if isinstance(value, bytes) else value
            if not isinstance(text, str):
                raise CorpusError(f"{path}, record {number}: a sentence should be text, got {reprlib.repr(value)}.")
            num_bytes = len(text.encode("utf-8"))
        except UnicodeError:
            raise CorpusError(f"{path}, record {number} is not UTF-8 text. Convert it to UTF-8.") from None
        if num_bytes > MAX_LINE_BYTES:
            raise CorpusError(
                f"{path}, record {number}: a sentence has more than {MAX_LINE_BYTES:,} bytes. Shorten it."
            )
        if "\0" in text:
            raise CorpusError(f"{path}, record {number}: a sentence has a NUL character. Remove it.")
        sentence = _LANGUAGE_TAG.sub("", to_single_line(text), count=1)
        return "" if sentence in self._missing_markers else sentence

    def _check_columns(self, columns: Iterable[str], path: Path) -> None:
        """Raise an error if a column that the training text lacks is a selected language in another spelling."""
        sources = {name: f"column {name} of the training text" for name in self._codes}
        others = (name for name in columns if looks_like_language_code(name) and name not in self._training_columns)
        check_spelled_once(sources | {name: f"{path}: column {name}" for name in others})

    def _first_columns(self) -> list[str]:
        """Return the columns of the first 1,000 training records."""
        records = (record for path in self._files[Split.TRAIN] for record in islice(self._read_records(path), 1000))
        return sorted({name for record in records for name in record})

    def _columns_with_text(self) -> tuple[str, ...]:
        """Columns named by a language code whose training text has letters; a numeric `id` column is not Indonesian."""
        languages: set[str] = set()
        for path in self._files[Split.TRAIN]:
            for number, record in enumerate(self._read_records(path), start=1):
                for name in record.keys() - languages:
                    if not self._may_be_language(name) or not isinstance(record[name], str | bytes):
                        continue
                    if any(map(str.isalpha, self._cell_sentence(record[name], path, number))):
                        languages.add(name)
        return tuple(sorted(languages))


def is_table_file(path: Path) -> bool:
    """Whether the name of a file ends like that of a table."""
    return Path(uncompressed_name(path)).suffix in TABLE_SUFFIXES


def _table_files(folder: Path, split: Split) -> list[Path]:
    """The tables whose file name contains the name of the split. A single table is the training text."""
    if folder.is_file():
        return [folder] if split == Split.TRAIN else []
    files = []
    for path in sorted(folder.iterdir()):
        if is_table_file(path):
            splits = {
                SPLIT_ALIASES[word] for word in re.split(r"[._-]", uncompressed_name(path)) if word in SPLIT_ALIASES
            }
            if len(splits) > 1:
                raise CorpusError(f"{path}: the file name contains more than one of train, dev and test. Rename it.")
            files += [path] if splits == {split} else []
    return files


@lru_cache(maxsize=4096)
def _names_language(column: str) -> bool:
    """Whether a column is named by a language code or by the name of a language, such as German."""
    return looks_like_language_code(column) or bool(possible_languages(column))


def _is_tsv(path: Path) -> bool:
    return Path(uncompressed_name(path)).suffix == ".tsv"


def _read_tsv(path: Path, columns: tuple[str, ...]) -> Iterator[Mapping[str, Any]]:
    """Read records by column name. The first line names the columns, unless `columns` does."""
    lines = enumerate(read_lines(path), start=1)
    where = "corpus.columns"
    if not columns:
        _, first_line = next(lines, (1, ""))
        columns, where = tuple(name.strip() for name in first_line.split("\t")), "the first line"
        _check_header(path, columns)
    for number, line in lines:
        cells = line.split("\t")
        if len(cells) != len(columns):
            raise CorpusError(f"{path}, line {number} has {len(cells)} cells, but {where} has {len(columns)}.")
        if number == 1 and tuple(cells) == columns:
            raise CorpusError(f"{path}: the first line already names the columns. Remove corpus.columns.")
        yield dict(zip(columns, cells, strict=True))


def _check_header(path: Path, names: tuple[str, ...]) -> None:
    """Raise an error if the first line does not name columns, as in a table that begins with text."""
    if names != ("",) and not any(map(_names_language, names)):
        raise CorpusError(
            f"{path}: the first line names no language: {reprlib.repr(names[0])}, … If it is text, name the columns: "
            f"corpus.columns: [{', '.join(_EXAMPLE_CODES[: len(names)])}] in the settings, or the option --columns of "
            f"`manyglot corpus split`. Otherwise, name them by language codes such as de."
        )
    if len(set(names)) < len(names):
        raise CorpusError(f"{path}: the first line contains the same column name twice.")


def _read_jsonl(path: Path) -> Iterator[Mapping[str, Any]]:
    for number, line in enumerate(read_lines(path), start=1):
        try:
            record = json.loads(line, object_pairs_hook=_object_with_unique_keys)
        except _RepeatedKey as error:
            raise CorpusError(f"{path}, line {number} has two values of {error}. Remove one of them.") from None
        except (ValueError, RecursionError):
            record = None
        if isinstance(record, dict):
            record = record.get(NESTED_COLUMN, record)
        if not isinstance(record, dict):
            raise CorpusError(f'{path}, line {number} is not a JSON object such as {{"de": "…", "en": "…"}}.')
        yield record


class _RepeatedKey(Exception):
    """A JSON object has a key twice."""


def _object_with_unique_keys(items: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(items)
    if len(record) < len(items):
        raise _RepeatedKey(repr(first_repeated([key for key, _ in items]))[:100])
    return record
