"""The parts of a published corpus: a set of line-aligned files, a translation memory or a table.

A part names each language as its files do, such as `deu_Latn` or `ref`. The corpus maps these names to its languages.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from manyglot.corpus.base import Row, Split
from manyglot.corpus.table_file import TableFile
from manyglot.corpus.textfiles import read_aligned_rows
from manyglot.corpus.tmx import read_tmx
from manyglot.corpus.zip_archives import TextSource
from manyglot.errors import CorpusError

LINE_LABELS = ""
"""The name of a file with a label per line instead of sentences."""
TICO_COLUMNS = ("sourceLang", "targetLang", "sourceString", "targetString")
"""The columns of the TICO-19 tables: the languages of a sentence pair, and the pair."""


class TextPart(Protocol):
    """Text of one split."""

    @property
    def split(self) -> Split | None:
        """The split, or None if the names of the files do not tell it."""

    @property
    def sources(self) -> tuple[TextSource, ...]:
        """The files."""

    @property
    def names(self) -> Set[str]:
        """The languages as the files name them. Finding them may require reading the text."""

    def rows(self, names: Set[str]) -> Iterator[Row]:
        """Yield the rows in some of the languages."""


@dataclass(frozen=True)
class AlignedText:
    """Line-aligned files, one per language."""

    split: Split | None
    files: Mapping[str, TextSource]
    """The file of each language; `LINE_LABELS` is a file whose lines are only counted."""

    @property
    def sources(self) -> tuple[TextSource, ...]:
        """The files."""
        return tuple(self.files.values())

    @property
    def names(self) -> Set[str]:
        """The languages as the files name them."""
        return self.files.keys() - {LINE_LABELS}

    def rows(self, names: Set[str]) -> Iterator[Row]:
        """Yield the rows in some of the languages; raise an error if the numbers of lines differ."""
        for row in read_aligned_rows(
            {name: path for name, path in self.files.items() if name in {*names, LINE_LABELS}}
        ):
            row.pop(LINE_LABELS, None)
            yield row


@dataclass(frozen=True)
class TmxText:
    """A translation memory."""

    split: Split | None
    source: TextSource

    @property
    def sources(self) -> tuple[TextSource, ...]:
        """The file."""
        return (self.source,)

    @cached_property
    def names(self) -> Set[str]:
        """The languages as the file names them."""
        return {name for unit in read_tmx(self.source) for name in unit}

    def rows(self, names: Set[str]) -> Iterator[Row]:
        """Yield the units in some of the languages."""
        for unit in read_tmx(self.source):
            yield {name: text for name, text in unit.items() if name in names}


@dataclass(frozen=True)
class TableText:
    """A table with a column per language."""

    split: Split | None
    table: TableFile

    @property
    def sources(self) -> tuple[TextSource, ...]:
        """The file."""
        return (self.table.source,)

    @cached_property
    def names(self) -> Set[str]:
        """The columns with text."""
        return self.table.columns_with_text()

    def rows(self, names: Set[str]) -> Iterator[Row]:
        """Yield the rows in some of the languages."""
        return self.table.rows(tuple(sorted(names)))


@dataclass(frozen=True)
class PairTableText:
    """A table whose records name the languages of a sentence pair, as in TICO-19."""

    split: Split | None
    table: TableFile

    @property
    def sources(self) -> tuple[TextSource, ...]:
        """The file."""
        return (self.table.source,)

    @cached_property
    def names(self) -> Set[str]:
        """The languages as the records name them."""
        return {name for pair in self._pairs() for name in pair}

    def rows(self, names: Set[str]) -> Iterator[Row]:
        """Yield the pairs in some of the languages."""
        for pair in self._pairs():
            yield {name: text for name, text in pair.items() if name in names and text}

    def _pairs(self) -> Iterator[Mapping[str, str]]:
        for number, record in enumerate(self.table.records(), start=1):
            source, target, *texts = (self.table.sentence(record.get(column), number) for column in TICO_COLUMNS)
            if not source or not target or source == target:
                raise CorpusError(
                    f"{self.table.source}, record {number}: {TICO_COLUMNS[0]} and {TICO_COLUMNS[1]} should name two "
                    f"languages."
                )
            yield dict(zip((source, target), texts, strict=True))


def file_with(part: TextPart, name: str) -> TextSource:
    """Return a file of a part with text in a language, for error messages."""
    return part.files[name] if isinstance(part, AlignedText) else part.sources[0]
