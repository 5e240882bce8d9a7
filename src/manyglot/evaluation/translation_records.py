"""Records of translations and scores: JSONL, or TSV whose first line names the columns. Errors name file and line."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from manyglot.corpus.decompression import uncompressed_name
from manyglot.corpus.languages import Direction, Languages, is_known_language_code, looks_like_language_code
from manyglot.corpus.textfiles import read_lines
from manyglot.errors import CorpusError, LanguageError, shorten
from manyglot.files import parse_json

RECORD_SUFFIXES = (".jsonl", ".tsv")
SOURCE_LANGUAGE = ("source_language", "source_lang", "src_lang", "from", "source", "src")
TARGET_LANGUAGE = ("target_language", "target_lang", "tgt_lang", "trg_lang", "to", "target", "tgt", "trg")
OUTPUT = ("output", "hypothesis", "hyp", "translation", "mt", "prediction")
SOURCE_TEXT = ("source_text", "source_sentence", "src_text", "source", "src")
REFERENCE = ("reference", "ref", "reference_text", "target_text")


class Record(NamedTuple):
    """A line of a file: cells by column."""

    path: Path
    line: int
    cells: Mapping[str, Any]
    unit: str = "line"
    """What `line` counts: in a JSON file, sentences."""

    @property
    def place(self) -> str:
        """The file and the line, for error messages."""
        return f"{self.path}, {self.unit} {self.line}"

    def describe_columns(self) -> str:
        """Return the names of the columns, for error messages."""
        return shorten(", ".join(map(str, self.cells))) or "none"

    def text(self, column: str) -> str:
        """Return a cell that must be text."""
        value = self.cells.get(column)
        if not isinstance(value, str):
            raise CorpusError(f"{self.place}: '{column}' should be text, got {shorten(repr(value))}.")
        return value


class DirectionColumns(NamedTuple):
    """The columns that name the direction of a record."""

    source: str
    target: str

    def direction(self, record: Record, find_code: Callable[[str], str | None]) -> Direction | None:
        """Return the direction of a record, or None if the test set lacks one of its languages."""
        codes = []
        for column in self:
            try:
                codes.append(find_code(record.text(column)))
            except LanguageError as error:
                raise LanguageError(f"{record.place}: {error}") from None
        source, target = codes
        if source is not None and source == target:
            raise LanguageError(f"{record.place}: source and target language are both {source}. Correct one of them.")
        return None if source is None or target is None else Direction(source, target)


def is_record_file(path: Path) -> bool:
    """Whether a file has records according to its name."""
    return Path(uncompressed_name(path)).suffix in RECORD_SUFFIXES


def read_records(path: Path) -> Iterator[Record]:
    """Read the records of a JSONL or TSV file. All records must have the columns of the first one."""
    parse = _parse_tsv if Path(uncompressed_name(path)).suffix == ".tsv" else _parse_jsonl
    columns: frozenset[str] | None = None
    for record in parse(path):
        if columns is None:
            columns = frozenset(record.cells)
        elif columns - record.cells.keys():
            missing = shorten(sorted(columns - record.cells.keys())[0])
            raise CorpusError(f"{record.place} has no '{missing}', but the first record has. Complete the record.")
        yield record


def find_direction_columns(record: Record) -> DirectionColumns | None:
    """Return the columns that name the languages, or None if there are none."""
    source, target = (find_column(record, names) for names in (SOURCE_LANGUAGE, TARGET_LANGUAGE))
    if source is None or target is None:
        return None
    names_languages = all(looks_like_language_code(str(record.cells[column])) for column in (source, target))
    is_explicit = "lang" in source and "lang" in target
    return DirectionColumns(source, target) if names_languages or is_explicit else None


def find_column(record: Record, names: tuple[str, ...], used: tuple[str | None, ...] = ()) -> str | None:
    """Return the first of the named columns that a record has and that has no other use."""
    return next((name for name in names if name in record.cells and name not in used), None)


def code_finder(languages: Languages) -> Callable[[str], str | None]:
    """Return a function that finds codes; it returns None for a known language that is not among the languages."""
    found: dict[str, str | None] = {}

    def find(name: str) -> str | None:
        if name not in found:
            try:
                found[name] = languages.find_code(name)
            except LanguageError:
                if not (looks_like_language_code(name) and is_known_language_code(name)):
                    raise
                found[name] = None
        return found[name]

    return find


def _parse_jsonl(path: Path) -> Iterator[Record]:
    for number, line in enumerate(read_lines(path), start=1):
        try:
            cells = parse_json(line)
        except (ValueError, RecursionError) as error:
            reason = "nested too deeply" if isinstance(error, RecursionError) else shorten(str(error))
            raise CorpusError(f"{path}, line {number} is not JSON ({reason}). Write one object per line.") from None
        if not isinstance(cells, dict):
            raise CorpusError(f"{path}, line {number} is not a JSON object. Write one object per line.")
        yield Record(path, number, cells)


def _parse_tsv(path: Path) -> Iterator[Record]:
    columns: list[str] = []
    for number, line in enumerate(read_lines(path), start=1):
        cells = line.split("\t")
        if number == 1:
            columns = [cell.strip() for cell in cells]
            if len(set(columns)) < len(columns):
                raise CorpusError(f"{path}: the first line names a column twice. Rename one of them.")
            continue
        if len(cells) != len(columns):
            raise CorpusError(
                f"{path}, line {number} has {len(cells)} cells, but the first line names {len(columns)} columns."
            )
        yield Record(path, number, dict(zip(columns, cells, strict=True)))
