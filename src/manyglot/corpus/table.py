"""Tables with a column for each language: TSV, JSONL or Parquet, such as the TED talks of Qi et al. (2018).

One or several files a split, told by `train`, `dev` or `test` in their names. A cell that is empty, or holds one of the
`missing` marks, means that language has no such sentence. A tag such as `__en__` at the beginning of a cell, which the
reader of the TED talks writes, is no text.
"""

from __future__ import annotations

import json
import re
import reprlib
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Literal

from manyglot.config.settings import RESUMABLE
from manyglot.corpus.languages import looks_like_code
from manyglot.corpus.rows import SPLITS, CorpusOptions, Row, Split
from manyglot.corpus.textfiles import fingerprint_files, one_line, plain_name, read_lines
from manyglot.errors import CorpusError, LanguageError, suggest

_TAG = re.compile(r"__[a-z]{2,3}([_-][A-Za-z]+)*__(\s+|$)")


class TableSettings(CorpusOptions):
    """Tables with a column for each language: TSV, JSONL or Parquet, such as the TED talks."""

    kind: Literal["table"] = "table"
    """Which corpus: files such as train.tsv, all_talks_dev.tsv, test.jsonl or train.parquet."""
    path: Annotated[Path, RESUMABLE]
    """The folder."""
    languages: tuple[str, ...] = ()
    """The columns to use; empty takes all that are named as languages and have training text."""
    missing: tuple[str, ...] = ("__NULL__", "_ _ NULL _ _")
    """What stands in a cell that has no sentence, beside nothing."""


class TableCorpus:
    """Rows as they stand in the files, one file after the other."""

    def __init__(self, settings: TableSettings) -> None:
        folder = settings.path
        if not folder.is_dir():
            raise CorpusError(f"corpus.path: {folder} is not a folder. It should hold files such as train.tsv.")
        self._missing = set(settings.missing)
        self._files = {split: _files_of(folder, split) for split in Split}
        if not self._files[Split.TRAIN]:
            raise CorpusError(f"{folder} holds no training table. Name it train.tsv, train.jsonl or train.parquet.")
        self.languages = tuple(settings.languages) or self._languages_with_text()
        first = (record for path in self._files[Split.TRAIN] for record in islice(_records(path), 1000))
        columns = sorted({name for record in first for name in record})
        for code in settings.languages:
            if code not in columns:
                raise LanguageError(f"corpus.languages: {folder} has no column {code}. {suggest(code, columns)}")

    def rows(self, split: Split) -> Iterator[Row]:
        """Read the cells of the languages."""
        for path in self._files[split]:
            for number, record in enumerate(_records(path), start=1):
                cells = {code: self._cell(record.get(code), path, number) for code in self.languages}
                yield {code: sentence for code, sentence in cells.items() if sentence}

    def fingerprint(self) -> str:
        """The state of the files."""
        return fingerprint_files(path for files in self._files.values() for path in files)

    def _cell(self, value: Any, path: Path, number: int) -> str:
        """The sentence of a cell; `number` is the record's, for the message."""
        if value is None or value != value:  # nothing, or pandas' way to say it
            return ""
        try:
            text = value.decode("utf-8") if isinstance(value, bytes) else value
            if not isinstance(text, str):
                raise CorpusError(f"{path}, record {number}: a sentence should be text, got {reprlib.repr(value)}.")
            text.encode("utf-8")
        except UnicodeError:
            raise CorpusError(f"{path}, record {number} is not UTF-8 text.") from None
        sentence = _TAG.sub("", one_line(text), count=1)
        return "" if sentence in self._missing else sentence

    def _languages_with_text(self) -> tuple[str, ...]:
        """The columns that are named as languages and have letters; an `id` of numbers is not Indonesian."""
        found: set[str] = set()
        for path in self._files[Split.TRAIN]:
            for number, record in enumerate(_records(path), start=1):
                for name in record.keys() - found:
                    if looks_like_code(name) and isinstance(record[name], str | bytes):
                        found |= {name} if any(map(str.isalpha, self._cell(record[name], path, number))) else set()
        return tuple(sorted(found))


def _files_of(folder: Path, split: Split) -> list[Path]:
    """The tables whose name has a split's word in it."""
    found = []
    for path in sorted(folder.iterdir()):
        if Path(plain_name(path)).suffix in (".tsv", ".jsonl", ".parquet"):
            splits = {SPLITS[word] for word in re.split(r"[._-]", plain_name(path)) if word in SPLITS}
            if len(splits) > 1:
                raise CorpusError(f"{path} names more than one of train, dev and test. Rename it.")
            found += [path] if splits == {split} else []
    return found


def _records(path: Path) -> Iterator[Mapping[str, Any]]:
    match Path(plain_name(path)).suffix:
        case ".tsv":
            yield from _read_tsv(path)
        case ".jsonl":
            yield from _read_jsonl(path)
        case _:
            yield from _read_parquet(path)


def _read_tsv(path: Path) -> Iterator[Mapping[str, Any]]:
    lines = read_lines(path)
    header = [name.strip() for name in next(lines, "").split("\t")]
    if len(set(header)) < len(header):
        raise CorpusError(f"{path}: a column is named twice in its first line.")
    for number, line in enumerate(lines, start=2):
        cells = line.split("\t")
        if len(cells) != len(header):
            raise CorpusError(f"{path}, line {number} has {len(cells)} cells and the first line {len(header)}.")
        yield dict(zip(header, cells, strict=True))


def _read_jsonl(path: Path) -> Iterator[Mapping[str, Any]]:
    for number, line in enumerate(read_lines(path), start=1):
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            record = None
        record = record.get("translation", record) if isinstance(record, dict) else None  # as some hubs nest it
        if not isinstance(record, dict):
            raise CorpusError(f'{path}, line {number} is not a JSON object such as {{"de": "…", "en": "…"}}.')
        yield record


def _read_parquet(path: Path) -> Iterator[Mapping[str, Any]]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise CorpusError(f"To read {path}, install pyarrow: pip install 'manyglot[parquet]'.") from None
    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            for batch in file.iter_batches():
                for record in batch.to_pylist():
                    yield record.get("translation", record) or {}
    except (pyarrow.ArrowInvalid, OSError) as error:
        raise CorpusError(f"{path} cannot be read as Parquet: {error}") from None
