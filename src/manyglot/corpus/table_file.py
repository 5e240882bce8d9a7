"""Read one table with a column per language: TSV, JSONL or Parquet."""

from __future__ import annotations

import json
import re
import reprlib
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from manyglot.corpus.decompression import NamedFile, uncompressed_name
from manyglot.corpus.language_lookup import possible_languages
from manyglot.corpus.languages import looks_like_language_code
from manyglot.corpus.parquet import NESTED_COLUMN, first_repeated, read_parquet
from manyglot.corpus.textfiles import MAX_LINE_BYTES, read_lines, to_single_line
from manyglot.corpus.zip_archives import TextSource
from manyglot.errors import CorpusError

TABLE_SUFFIXES = (".tsv", ".jsonl", ".parquet")
MISSING_MARKERS = ("__NULL__", "_ _ NULL _ _")
"""Cell contents that mark a missing sentence in the TED talks."""
_EXAMPLE_CODES = ("de", "en", "fr", "es")
_LANGUAGE_TAG = re.compile(r"^__[a-z]{2,3}([_-][A-Za-z]+)*__(\s+|$)")


@dataclass(frozen=True)
class TableFile:
    """A table whose records have a sentence per language."""

    source: TextSource
    columns: tuple[str, ...] = ()
    """The columns of a TSV file without a header."""
    text_columns: Set[str] = frozenset()
    """Columns that may hold text although no language code names them."""
    allows_names: bool = False
    """Whether names of languages, such as German, may name columns."""
    missing_markers: Set[str] = field(default=frozenset(MISSING_MARKERS))
    """Cell contents that mark a missing sentence, in addition to the empty string."""

    def records(self) -> Iterator[Mapping[str, Any]]:
        """Yield the cells of each record by column, including those that are no text."""
        match Path(uncompressed_name(self.source)).suffix:
            case ".tsv":
                return _read_tsv(self.source, self.columns, self.text_columns)
            case ".jsonl":
                return _read_jsonl(self.source)
        if not isinstance(self.source, Path):
            raise CorpusError(f"{self.source}: a Parquet table cannot be read from an archive. Unpack it.")
        return read_parquet(self.source, self.may_hold_text)

    def may_hold_text(self, column: str) -> bool:
        """Whether the name of a column allows text in it."""
        return column in self.text_columns or (
            names_language(column) if self.allows_names else looks_like_language_code(column)
        )

    def rows(self, columns: tuple[str, ...]) -> Iterator[dict[str, str]]:
        """Yield the sentences of some columns; a row omits columns whose cell is empty."""
        for number, record in enumerate(self.records(), start=1):
            cells = {column: self.sentence(record.get(column), number) for column in columns}
            yield {column: sentence for column, sentence in cells.items() if sentence}

    def columns_with_text(self) -> set[str]:
        """Return the columns that may hold text and have letters; a numeric `id` column is not Indonesian."""
        columns: set[str] = set()
        for number, record in enumerate(self.records(), start=1):
            for name in record.keys() - columns:
                if not self.may_hold_text(name) or not isinstance(record[name], str | bytes):
                    continue
                if any(map(str.isalpha, self.sentence(record[name], number))):
                    columns.add(name)
        return columns

    def sentence(self, value: Any, number: int) -> str:
        """Return the sentence in a cell, or an empty string. `number` is that of the record, for error messages."""
        if value is None or value != value:  # null or NaN
            return ""
        where = f"{self.source}, record {number}"
        try:
            text = value.decode("utf-8") if isinstance(value, bytes) else value
            if not isinstance(text, str):
                raise CorpusError(f"{where}: a sentence should be text, got {reprlib.repr(value)}.")
            num_bytes = len(text.encode("utf-8"))
        except UnicodeError:
            raise CorpusError(f"{where} is not UTF-8 text. Convert it to UTF-8.") from None
        if num_bytes > MAX_LINE_BYTES:
            raise CorpusError(f"{where}: a sentence has more than {MAX_LINE_BYTES:,} bytes. Shorten it.")
        if "\0" in text:
            raise CorpusError(f"{where}: a sentence has a NUL character. Remove it.")
        sentence = _LANGUAGE_TAG.sub("", to_single_line(text), count=1)
        return "" if sentence in self.missing_markers else sentence


def is_table_file(path: NamedFile) -> bool:
    """Whether the name of a file ends like that of a table."""
    return Path(uncompressed_name(path)).suffix in TABLE_SUFFIXES


@lru_cache(maxsize=4096)
def names_language(column: str) -> bool:
    """Whether a column is named by a language code or by the name of a language, such as German."""
    return looks_like_language_code(column) or bool(possible_languages(column))


def is_tsv(path: NamedFile) -> bool:
    """Whether the name of a file ends like that of a TSV file."""
    return Path(uncompressed_name(path)).suffix == ".tsv"


def _read_tsv(source: TextSource, columns: tuple[str, ...], text_columns: Set[str]) -> Iterator[Mapping[str, Any]]:
    """Read records by column name. The first line names the columns, unless `columns` does."""
    lines = enumerate(read_lines(source), start=1)
    where = "corpus.columns"
    if not columns:
        _, first_line = next(lines, (1, ""))
        columns, where = tuple(name.strip() for name in first_line.split("\t")), "the first line"
        if text_columns.isdisjoint(columns):
            _check_header(source, columns)
        if len(set(columns)) < len(columns):
            raise CorpusError(f"{source}: the first line contains the same column name twice.")
    for number, line in lines:
        cells = line.split("\t")
        if len(cells) != len(columns):
            raise CorpusError(f"{source}, line {number} has {len(cells)} cells, but {where} has {len(columns)}.")
        if number == 1 and tuple(cells) == columns:
            raise CorpusError(f"{source}: the first line already names the columns. Remove corpus.columns.")
        yield dict(zip(columns, cells, strict=True))


def _check_header(source: TextSource, names: tuple[str, ...]) -> None:
    """Raise an error if the first line does not name columns, as in a table that begins with text."""
    if names != ("",) and not any(map(names_language, names)):
        raise CorpusError(
            f"{source}: the first line names no language: {reprlib.repr(names[0])}, … If it is text, name the columns: "
            f"corpus.columns: [{', '.join(_EXAMPLE_CODES[: len(names)])}] in the settings, or the option --columns of "
            f"`manyglot corpus split`. Otherwise, name them by language codes such as de."
        )


def _read_jsonl(source: TextSource) -> Iterator[Mapping[str, Any]]:
    for number, line in enumerate(read_lines(source), start=1):
        try:
            record = json.loads(line, object_pairs_hook=_object_with_unique_keys)
        except _RepeatedKey as error:
            raise CorpusError(f"{source}, line {number} has two values of {error}. Remove one of them.") from None
        except (ValueError, RecursionError):
            record = None
        if isinstance(record, dict):
            record = record.get(NESTED_COLUMN, record)
        if not isinstance(record, dict):
            raise CorpusError(f'{source}, line {number} is not a JSON object such as {{"de": "…", "en": "…"}}.')
        yield record


class _RepeatedKey(Exception):
    """A JSON object has a key twice."""


def _object_with_unique_keys(items: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(items)
    if len(record) < len(items):
        raise _RepeatedKey(repr(first_repeated([key for key, _ in items]))[:100])
    return record
