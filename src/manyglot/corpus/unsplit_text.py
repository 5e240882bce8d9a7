"""Open text that has not been split into train, dev and test, as groups of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from manyglot.config.base_settings import parse_settings
from manyglot.corpus.base import Corpus, Row, Split
from manyglot.corpus.bilingual import BilingualCorpus
from manyglot.corpus.decompression import uncompressed_name
from manyglot.corpus.language_selection import check_spelled_once
from manyglot.corpus.languages import is_known_language_code, looks_like_language_code
from manyglot.corpus.table import TABLE_SUFFIXES, TableCorpus, TableSettings, is_table_file
from manyglot.corpus.textfiles import read_aligned_rows
from manyglot.errors import CorpusError


@dataclass(frozen=True)
class RowGroup:
    """Rows that are split together, such as those of a set of line-aligned files."""

    name: str
    languages: tuple[str, ...]
    read_rows: Callable[[], Iterator[Row]]
    """Reads the rows from the beginning; every call yields the same rows."""


def group_corpus(corpus: Corpus) -> list[RowGroup]:
    """Return the training text of a corpus: a group per language pair of a bilingual corpus, otherwise one group."""
    if isinstance(corpus, BilingualCorpus):
        pairs = corpus.training_pairs().items()
        return [RowGroup(pair, tuple(files), partial(read_aligned_rows, files)) for pair, files in pairs]
    return [RowGroup("the corpus", corpus.languages, partial(corpus.rows, Split.TRAIN))]


def group_files(paths: Sequence[Path], columns: Sequence[str] = ()) -> list[RowGroup]:
    """Return the rows of one table, or of line-aligned files such as news.en and news.de: a group per name."""
    for path in paths:
        if not path.is_file():
            hint = " Give the files in it." if path.is_dir() else ""
            raise CorpusError(f"{path} is not a file.{hint}")
    tables = [path for path in paths if is_table_file(path)]
    if len(paths) == 1 and tables:
        return [_group_table(tables[0], columns)]
    if tables:
        raise CorpusError(f"{tables[0]} is a table ({', '.join(TABLE_SUFFIXES)}). Split it without other files.")
    if columns:
        raise CorpusError(
            "--columns names the columns of a TSV file, but the text is in line-aligned files. Remove it."
        )
    return _group_aligned_files(paths)


def _group_table(path: Path, columns: Sequence[str]) -> RowGroup:
    corpus = TableCorpus(parse_settings(TableSettings, {"path": path, "columns": tuple(columns)}, "corpus"))
    if len(corpus.languages) < 2:
        raise CorpusError(f"{path} needs at least two columns of text; it has {', '.join(corpus.languages) or 'none'}.")
    return RowGroup(str(path), corpus.languages, partial(corpus.rows, Split.TRAIN))


def _group_aligned_files(paths: Sequence[Path]) -> list[RowGroup]:
    files_by_name: dict[str, dict[str, Path]] = {}
    for path in paths:
        name, _, code = uncompressed_name(path).rpartition(".")
        if not name or not looks_like_language_code(code) or not is_known_language_code(code):
            raise CorpusError(f"{path}: the file name should end with a language code, such as news.en.")
        other = files_by_name.setdefault(name, {}).setdefault(code, path)
        if other is not path:
            raise CorpusError(f"{other} and {path} have the same name. Give one of them.")
    check_spelled_once({code: str(path) for files in files_by_name.values() for code, path in files.items()})
    for files in files_by_name.values():
        if len(files) < 2:
            (path,) = files.values()
            raise CorpusError(f"{path} has no translation. Give the files with its translations too.")
    return [RowGroup(name, tuple(files), partial(read_aligned_rows, files)) for name, files in files_by_name.items()]
