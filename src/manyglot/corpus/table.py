"""Reader of tables with one column per language: TSV, JSONL or Parquet, such as the TED talks of Qi et al. (2018).

A split may have several files; `train`, `dev` or `test` in the name assigns a file to its split. A cell that is empty
or contains one of the `missing_markers` means that the language lacks this sentence. A tag such as `__en__` at the
beginning of a cell, which the reader of the TED talks writes, is removed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Annotated, Literal

from pydantic import field_validator

from manyglot.config.base_settings import CHANGEABLE_ON_RESUME
from manyglot.corpus.base import SPLIT_ALIASES, BaseCorpusSettings, Row, Split
from manyglot.corpus.decompression import uncompressed_name
from manyglot.corpus.language_selection import check_spelled_once, select_languages
from manyglot.corpus.languages import looks_like_language_code
from manyglot.corpus.table_file import MISSING_MARKERS, TABLE_SUFFIXES, TableFile, is_table_file, is_tsv, names_language
from manyglot.corpus.textfiles import fingerprint_files
from manyglot.errors import CorpusError


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
    missing_markers: tuple[str, ...] = MISSING_MARKERS
    """Cell contents that mark a missing sentence, in addition to the empty string."""

    @field_validator("columns")
    @classmethod
    def _columns_name_languages(cls, columns: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(columns)) < len(columns):
            raise ValueError("two columns have the same name.")
        if columns and not any(map(names_language, columns)):
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
        self._tables = {
            split: [
                TableFile(
                    path,
                    settings.columns,
                    allows_names=bool(settings.languages or settings.columns),
                    missing_markers=frozenset(settings.missing_markers),
                )
                for path in _table_files(folder, split)
            ]
            for split in Split
        }
        if not self._tables[Split.TRAIN]:
            raise CorpusError(f"{folder} contains no training table. Name it train.tsv, train.jsonl or train.parquet.")
        if settings.columns and not any(is_tsv(path) for path in self._paths()):
            raise CorpusError(f"corpus.columns names the columns of TSV files, but {folder} has none. Remove it.")
        self._training_columns = self._first_columns()
        columns = self._training_columns if settings.languages else self._columns_with_text()
        sources = {name: f"{folder}: column {name}" for name in columns}
        self._codes = select_languages(sources, settings.languages, settings.code_style, f"the columns of {folder}")
        self.languages = tuple(self._codes.values())

    def rows(self, split: Split) -> Iterator[Row]:
        """Read the sentences of a split; a row omits languages whose cell is empty."""
        checked: set[str] = set()
        for table in self._tables[split]:
            for number, record in enumerate(table.records(), start=1):
                if not checked.issuperset(record):
                    self._check_columns(record, table)
                    checked.update(record)
                cells = {code: table.sentence(record.get(name), number) for name, code in self._codes.items()}
                yield {code: sentence for code, sentence in cells.items() if sentence}

    def fingerprint(self) -> str:
        """A digest of the files' names, sizes and modification times."""
        return fingerprint_files(self._paths())

    def _paths(self) -> list[Path]:
        return [table.source for tables in self._tables.values() for table in tables if isinstance(table.source, Path)]

    def _check_columns(self, columns: Iterable[str], table: TableFile) -> None:
        """Raise an error if a column that the training text lacks is a selected language in another spelling."""
        sources = {name: f"column {name} of the training text" for name in self._codes}
        others = (name for name in columns if looks_like_language_code(name) and name not in self._training_columns)
        check_spelled_once(sources | {name: f"{table.source}: column {name}" for name in others})

    def _first_columns(self) -> list[str]:
        """Return the columns of the first 1,000 training records."""
        records = (record for table in self._tables[Split.TRAIN] for record in islice(table.records(), 1000))
        return sorted({name for record in records for name in record})

    def _columns_with_text(self) -> list[str]:
        """Return the columns named by a language whose training text has letters."""
        return sorted({column for table in self._tables[Split.TRAIN] for column in table.columns_with_text()})


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
