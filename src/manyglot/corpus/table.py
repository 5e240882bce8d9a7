"""Reader of tables with one column per language: TSV, JSONL or Parquet, such as the TED talks of Qi et al. (2018).

A split may have several files; `train`, `dev` or `test` in the name assigns a file to its split. A cell that is empty
or contains one of the `missing_markers` means that the language lacks this sentence. A tag such as `__en__` at the
beginning of a cell, which the reader of the TED talks writes, is removed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Annotated, Literal

from pydantic import field_validator

from manyglot.config.base_settings import CHANGEABLE_ON_RESUME
from manyglot.corpus.base import SPLIT_ALIASES, BaseCorpusSettings, Row, Split
from manyglot.corpus.decompression import uncompressed_name
from manyglot.corpus.languages import looks_like_language_code
from manyglot.corpus.table_file import MISSING_MARKERS, TABLE_SUFFIXES, TableFile, is_table_file, is_tsv
from manyglot.corpus.textfiles import fingerprint_files
from manyglot.errors import CorpusError, LanguageError, did_you_mean


class TableSettings(BaseCorpusSettings):
    """Tables with one column per language: TSV, JSONL or Parquet, such as the TED talks."""

    kind: Literal["table"] = "table"
    """The kind of corpus: files such as train.tsv, all_talks_dev.tsv, test.jsonl or train.parquet."""
    path: Annotated[Path, CHANGEABLE_ON_RESUME]
    """The folder, or a single table that is all training text."""
    languages: tuple[str, ...] = ()
    """The columns to use; empty uses all columns that are named by a language code and have training text."""
    columns: tuple[str, ...] = ()
    """The columns of TSV files without a header, such as [de, en]; empty reads the names from the first line."""
    missing_markers: tuple[str, ...] = MISSING_MARKERS
    """Cell contents that mark a missing sentence, in addition to the empty string."""

    @field_validator("columns")
    @classmethod
    def _columns_name_languages(cls, columns: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(columns)) < len(columns):
            raise ValueError("two columns have the same name.")
        if columns and not any(map(looks_like_language_code, columns)):
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
                TableFile(path, settings.columns, frozenset(settings.languages), frozenset(settings.missing_markers))
                for path in _table_files(folder, split)
            ]
            for split in Split
        }
        if not self._tables[Split.TRAIN]:
            raise CorpusError(f"{folder} contains no training table. Name it train.tsv, train.jsonl or train.parquet.")
        if settings.columns and not any(is_tsv(path) for path in self._paths()):
            raise CorpusError(f"corpus.columns names the columns of TSV files, but {folder} has none. Remove it.")
        self.languages = tuple(settings.languages) or self._languages_with_text()
        first_records = (record for table in self._tables[Split.TRAIN] for record in islice(table.records(), 1000))
        columns = sorted({name for record in first_records for name in record})
        for code in settings.languages:
            if code not in columns:
                raise LanguageError(f"corpus.languages: {folder} has no column {code}. {did_you_mean(code, columns)}")

    def rows(self, split: Split) -> Iterator[Row]:
        """Read the sentences of a split; a row omits languages whose cell is empty."""
        for table in self._tables[split]:
            yield from table.rows(self.languages)

    def fingerprint(self) -> str:
        """A digest of the files' names, sizes and modification times."""
        return fingerprint_files(self._paths())

    def _paths(self) -> list[Path]:
        return [table.source for tables in self._tables.values() for table in tables if isinstance(table.source, Path)]

    def _languages_with_text(self) -> tuple[str, ...]:
        """Return the columns named by a language code whose training text has letters."""
        return tuple(sorted({column for table in self._tables[Split.TRAIN] for column in table.columns_with_text()}))


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
