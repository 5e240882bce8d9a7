"""Read tables with one sentence per record, as in FLORES+, and join the sentences with the same id into rows.

The columns `iso_639_3`, `iso_15924` and `glottocode` name the language. A file name such as `por_Latn_braz1246.parquet`
takes precedence, and then these columns may be absent. Otherwise, the glottocode distinguishes varieties with the same
language and script.
"""

from __future__ import annotations

import re
import reprlib
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePath
from typing import Any, NamedTuple

from manyglot.corpus.base import SPLIT_ALIASES, Row, Split
from manyglot.corpus.decompression import uncompressed_name
from manyglot.corpus.table_file import TableFile
from manyglot.corpus.zip_archives import TextSource
from manyglot.errors import CorpusError

LANGUAGE_COLUMNS = frozenset(("iso_639_3", "iso_15924"))
"""Columns that a table needs unless its file name is a language."""
SENTENCE_COLUMNS = LANGUAGE_COLUMNS | {"id", "text", "glottocode", "split"}
"""The columns that are read."""
MAX_SENTENCES = 5_000_000
"""Maximum number of sentences to join, which are held in memory. FLORES+ has 460,000."""
_LANGUAGE_OF_FILE = re.compile(r"[a-z]{3}_[A-Z][a-z]{3}(_[a-z0-9]+)?")


class _Variety(NamedTuple):
    """A language as the columns describe it."""

    code: str
    """Language and script, such as por_Latn."""
    glottocode: str


@dataclass(frozen=True)
class SentenceTables:
    """Tables whose sentences are joined, each with the split that its path names."""

    tables: Sequence[tuple[TableFile, Split | None]]

    @cached_property
    def names_by_split(self) -> dict[Split | None, set[str]]:
        """The languages of each split."""
        names: dict[Split | None, set[str]] = {}
        for split, name, *_ in self._sentences():
            names.setdefault(split, set()).add(name)
        return names

    def rows(self, split: Split | None, names: Set[str]) -> Iterator[Row]:
        """Yield the rows of a split in some languages, in the order of the first table."""
        rows: dict[int | str, dict[str, str]] = {}
        num_sentences = 0
        for sentence_split, name, sentence_id, text, where in self._sentences():
            if sentence_split != split or name not in names:
                continue
            row = rows.setdefault(sentence_id, {})
            if name in row:
                raise CorpusError(f"{where} is the second sentence {sentence_id!r:.100} in {name}. Remove one of them.")
            row[name] = text
            num_sentences += 1
            if num_sentences > MAX_SENTENCES:
                raise CorpusError(f"{where}: more than {MAX_SENTENCES:,} sentences cannot be joined by id.")
        for row in rows.values():
            yield {name: text for name, text in row.items() if text}

    def _sentences(self) -> Iterator[tuple[Split | None, str, int | str, str, str]]:
        """Yield split, language, id, text and position of each sentence."""
        for table, path_split, record, where in self._records():
            sentence_id, split_name = record["id"], record.get("split")
            if not isinstance(sentence_id, int | str):
                raise CorpusError(f"{where}: the id should be a number or text, got {reprlib.repr(sentence_id)}.")
            split = path_split if split_name is None else SPLIT_ALIASES.get(str(split_name))
            if split_name is not None and split is None:
                raise CorpusError(f"{where}: the split should be dev or devtest, got {reprlib.repr(split_name)}.")
            number = int(where.rpartition(" ")[2])
            yield split, self._name(table, record, where), sentence_id, table.sentence(record["text"], number), where

    def _records(self) -> Iterator[tuple[TableFile, Split | None, Any, str]]:
        for table, split in self.tables:
            for number, record in enumerate(table.records(), start=1):
                where = f"{table.source}, record {number}"
                if missing := _required_columns(table.source) - record.keys():
                    raise CorpusError(f"{where} lacks {', '.join(sorted(missing))}. Add it.")
                yield table, split, record, where

    def _name(self, table: TableFile, record: Any, where: str) -> str:
        file_name = _language_of_file(table.source)
        if file_name and not record.keys() & LANGUAGE_COLUMNS:
            return file_name
        variety = _variety(record, where)
        if file_name:
            if not file_name.startswith(variety.code):
                raise CorpusError(f"{where} is in {variety.code}, but the file is named {file_name}. Rename it.")
            return file_name
        is_shared = len(self._glottocodes[variety.code]) > 1
        return f"{variety.code}_{variety.glottocode}" if is_shared and variety.glottocode else variety.code

    @cached_property
    def _glottocodes(self) -> dict[str, set[str]]:
        """The glottocodes of each language and script, in tables that no language names."""
        glottocodes: dict[str, set[str]] = {}
        for table, _, record, where in self._records():
            if not _language_of_file(table.source):
                variety = _variety(record, where)
                glottocodes.setdefault(variety.code, set()).add(variety.glottocode)
        return glottocodes


@dataclass(frozen=True)
class SentenceTableText:
    """One split of sentence tables."""

    split: Split | None
    contents: SentenceTables

    @property
    def sources(self) -> tuple[TextSource, ...]:
        """The files."""
        return tuple(table.source for table, _ in self.contents.tables)

    @property
    def names(self) -> Set[str]:
        """The languages as the tables name them."""
        return self.contents.names_by_split[self.split]

    def rows(self, names: Set[str]) -> Iterator[Row]:
        """Yield the rows in some of the languages."""
        return self.contents.rows(self.split, names)


def is_sentence_table(source: TextSource, columns: Set[str]) -> bool:
    """Whether a table has one sentence per record: an id, a text, and a language in its columns or its file name."""
    return _required_columns(source) <= columns


def _required_columns(source: TextSource) -> frozenset[str]:
    return frozenset(("id", "text")) | (frozenset() if _language_of_file(source) else LANGUAGE_COLUMNS)


def _variety(record: Any, where: str) -> _Variety:
    language, script, glottocode = (record.get(name) or "" for name in ("iso_639_3", "iso_15924", "glottocode"))
    if not isinstance(language, str) or not isinstance(script, str) or not isinstance(glottocode, str) or not language:
        raise CorpusError(
            f"{where}: iso_639_3, iso_15924 and glottocode should be text such as deu, Latn and stan1295."
        )
    return _Variety("_".join(filter(None, (language, script)))[:100], glottocode[:100])


def _language_of_file(source: TextSource) -> str:
    """Return the language that the name of a table consists of, or an empty string."""
    stem = PurePath(uncompressed_name(source)).stem
    return stem if _LANGUAGE_OF_FILE.fullmatch(stem) else ""
