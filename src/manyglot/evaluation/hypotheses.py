"""The translations of a system, read from files in any of the usual forms, by direction.

| path | content |
|---|---|
| an output folder of `evaluate` or `score` | its translations.jsonl |
| a folder | files named by direction, see `direction_names.py`; JSONL and TSV files with columns |
| a JSONL or TSV file | a record per sentence: source language, target language, output |
| another file | one output per line, in the direction of its name or of the options |
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, TypeVar

from manyglot.corpus.languages import Direction, Languages
from manyglot.corpus.textfiles import read_lines
from manyglot.errors import CorpusError, LanguageError
from manyglot.evaluation.direction_names import DirectionNames, FileRole, NamedFile
from manyglot.evaluation.packed_texts import PackedTexts
from manyglot.evaluation.translation_examples import TRANSLATIONS_FILE
from manyglot.evaluation.translation_records import (
    OUTPUT,
    REFERENCE,
    SOURCE_TEXT,
    code_finder,
    find_column,
    find_direction_columns,
    is_record_file,
    read_records,
)

_Key = TypeVar("_Key", Direction, str)
MAX_NAMED_FILES = 3
"""Maximum number of files that a message names."""


@dataclass
class TextLines:
    """Lines of one direction, or of all directions into a language, and where they come from."""

    path: Path
    lines: list[str] | PackedTexts
    line_numbers: Sequence[int] | None = None
    """The lines of the file, if it holds other directions too."""
    unit: str = "line"
    """What the line numbers count, as in `Record`."""

    def place(self, index: int) -> str:
        """Return the file and line of an element, for error messages."""
        return f"{self.path}, {self.unit} {self.line_numbers[index] if self.line_numbers else index + 1}"


@dataclass
class Hypotheses:
    """The translations of a system. Sources and references that come with them are compared with the test set."""

    outputs: dict[Direction, TextLines] = field(default_factory=dict)
    outputs_by_target: dict[str, TextLines] = field(default_factory=dict)
    """Outputs of all directions into a language, in the order of the source codes."""
    sources: dict[Direction, TextLines] = field(default_factory=dict)
    references: dict[Direction, TextLines] = field(default_factory=dict)
    files: set[Path] = field(default_factory=set)
    """All files that were read."""
    skipped: list[Path] = field(default_factory=list)
    """Files whose name has no direction between languages of the test set."""
    num_skipped_records: int = 0
    """Number of records in languages that the test set lacks."""

    def add(self, role: FileRole, direction: Direction, lines: TextLines) -> None:
        """Add the lines of a direction; raise an error if another file has them too."""
        by_direction = {
            FileRole.OUTPUT: self.outputs,
            FileRole.SOURCE: self.sources,
            FileRole.REFERENCE: self.references,
        }[role]
        _add(by_direction, direction, lines)


class StatedLanguages(NamedTuple):
    """The languages of files whose names do not tell them."""

    source: str | None = None
    target: str | None = None

    def complete(self, named: NamedFile) -> NamedFile:
        """Add the stated languages to what the name of a file says; a direction in the name must not differ."""
        if named.direction is None:
            source, target = self.source, self.target
            if source is None and target is not None and named.language not in (None, target):
                source = named.language  # a file of all translations into the target from the language in its name
            target = target or named.language
            return (
                named._replace(direction=Direction(source, target)) if source and target else self._with_target(named)
            )
        stated = Direction(self.source or named.direction.source, self.target or named.direction.target)
        if stated != named.direction:
            raise LanguageError(
                f"A file name says {named.direction}, but --source and --target say {stated}. Omit these options."
            )
        return named

    def _with_target(self, named: NamedFile) -> NamedFile:
        return named._replace(language=self.target) if self.target else named


def read_hypotheses(path: Path, languages: Languages, source: str | None, target: str | None) -> Hypotheses:
    """Read the translations of a file or folder; `source` and `target` are the languages missing in file names."""
    if not path.exists():
        raise CorpusError(f"{path} does not exist. Give a file or a folder with translations.")
    stated = StatedLanguages(_find_stated("--source", source, languages), _find_stated("--target", target, languages))
    hypotheses = Hypotheses()
    if is_result_folder(path):
        _read_record_file(hypotheses, path / TRANSLATIONS_FILE, languages)
    elif path.is_dir():
        _read_folder(hypotheses, path, languages, stated)
    elif is_record_file(path):
        _read_record_file(hypotheses, path, languages)
    else:
        named = stated.complete(DirectionNames(languages).parse(Path(path.name)))
        if not _read_text_file(hypotheses, path, named._replace(role=FileRole.OUTPUT)):
            raise LanguageError(f"The name of {path} has no direction such as de-en. Add --source and --target.")
    for direction, lines in hypotheses.outputs.items():
        if of_target := hypotheses.outputs_by_target.get(direction.target):
            raise CorpusError(
                f"{of_target.path} has all directions into {direction.target}, and {lines.path} has {direction}. "
                f"Remove one of them."
            )
    if not hypotheses.outputs and not hypotheses.outputs_by_target:
        skipped = f" Skipped: {name_files(hypotheses.skipped, path)}." if hypotheses.skipped else ""
        raise CorpusError(
            f"{path} has no translations between languages of the test set. Name files by direction, such as "
            f"de-en.txt.{skipped}"
        )
    return hypotheses


def _find_stated(option: str, name: str | None, languages: Languages) -> str | None:
    try:
        return None if name is None else languages.find_code(name)
    except LanguageError as error:
        raise LanguageError(f"{option}: {error}") from None


def is_result_folder(path: Path) -> bool:
    """Whether a path is an output folder of `evaluate` or `score`."""
    return (path / TRANSLATIONS_FILE).exists() and (path / "results.json").exists()


def name_files(paths: Sequence[Path], folder: Path) -> str:
    """Name some files of a folder and count the rest."""
    named = ", ".join(str(path.relative_to(folder)) for path in paths[:MAX_NAMED_FILES])
    return f"{named} and {len(paths) - MAX_NAMED_FILES:,} more" if len(paths) > MAX_NAMED_FILES else named


def find_files(folder: Path) -> list[Path]:
    """Return all files in a folder and its folders, except hidden ones."""
    return [
        path
        for path in sorted(folder.rglob("*"))
        if not path.is_dir() and not any(part.startswith(".") for part in path.relative_to(folder).parts)
    ]


def read_text_lines(path: Path) -> TextLines:
    """Read a file with one sentence per line; raise an error if it is empty."""
    lines = PackedTexts(read_lines(path))
    if not lines:
        raise CorpusError(f"{path} is empty. Write one translation per line.")
    return TextLines(path, lines)


def _read_folder(hypotheses: Hypotheses, folder: Path, languages: Languages, stated: StatedLanguages) -> None:
    names = DirectionNames(languages)
    for path in find_files(folder):
        if is_record_file(path):
            _read_record_file(hypotheses, path, languages)
            continue
        named = names.parse(path.relative_to(folder))
        if named.direction is not None or named.language is not None:
            named = stated.complete(named)
        if not _read_text_file(hypotheses, path, named):
            hypotheses.skipped.append(path)


def _read_text_file(hypotheses: Hypotheses, path: Path, named: NamedFile) -> bool:
    """Read one sentence per line; return False, without reading, if the languages are unknown."""
    if named.direction is None and (named.language is None or named.role is not FileRole.OUTPUT):
        return False
    lines = read_text_lines(path)
    hypotheses.files.add(path)
    if named.direction is not None:
        hypotheses.add(named.role, named.direction, lines)
    elif named.language is not None:
        _add(hypotheses.outputs_by_target, named.language, lines)
    return True


@dataclass
class _RecordedDirection:
    """The records of a direction, of which there may be millions in all."""

    line_numbers: array[int] = field(default_factory=lambda: array("q"))
    outputs: PackedTexts = field(default_factory=PackedTexts)
    others: dict[FileRole, list[str]] = field(default_factory=dict)
    """The sources and references."""


def _read_record_file(hypotheses: Hypotheses, path: Path, languages: Languages) -> None:
    """Read a JSONL or TSV file; the records of a direction are in the order of the test set."""
    find_code, columns, output = code_finder(languages), None, None
    extra: Mapping[FileRole, str] = {}
    parts: dict[Direction, _RecordedDirection] = {}
    texts: dict[str, str] = {}  # directions share sources and references, so each is stored once
    for record in read_records(path):
        if columns is None:
            columns, output = find_direction_columns(record), find_column(record, OUTPUT)
            if columns is None or output is None:
                raise CorpusError(
                    f"{path} needs the columns source_language, target_language and output; it has "
                    f"{record.describe_columns()}. Rename them."
                )
            names = {FileRole.SOURCE: SOURCE_TEXT, FileRole.REFERENCE: REFERENCE}
            found = {role: find_column(record, name, used=columns) for role, name in names.items()}
            extra = {role: column for role, column in found.items() if column is not None}
        assert output is not None
        direction = columns.direction(record, find_code)
        if direction is None:
            hypotheses.num_skipped_records += 1
            continue
        part = parts.setdefault(direction, _RecordedDirection())
        part.line_numbers.append(record.line)
        part.outputs.append(record.text(output))
        for role, column in extra.items():
            text = record.text(column)
            part.others.setdefault(role, []).append(texts.setdefault(text, text))
    if columns is None:
        raise CorpusError(f"{path} has no records. Write one record per translation.")
    hypotheses.files.add(path)
    for direction, part in parts.items():
        hypotheses.add(FileRole.OUTPUT, direction, TextLines(path, part.outputs, part.line_numbers))
        for role, lines in part.others.items():
            hypotheses.add(role, direction, TextLines(path, lines, part.line_numbers))


def _add(lines_by_key: dict[_Key, TextLines], key: _Key, lines: TextLines) -> None:
    other = lines_by_key.setdefault(key, lines)
    if other is not lines:
        what = str(key) if isinstance(key, Direction) else f"all directions into {key}"
        raise CorpusError(f"{other.path} and {lines.path} both have {what}. Remove one of them.")


def describe_files(hypotheses: Hypotheses, path: Path) -> Iterable[str]:
    """Say in one line which file was read as which direction, and what was skipped."""
    by_direction = {str(direction): lines.path for direction, lines in hypotheses.outputs.items()}
    by_direction |= {f"all→{target}": lines.path for target, lines in hypotheses.outputs_by_target.items()}
    first, file = next(iter(by_direction.items()))
    name = str(file.relative_to(path)) if path in file.parents else file.name
    example = f"{first} is {name}" if len(by_direction) == 1 else f"for example, {first} is {name}"
    yield f"Read {len(by_direction):,} directions from {len(hypotheses.files):,} files of {path}: {example}."
    if hypotheses.skipped:
        yield (
            f"Skipping {len(hypotheses.skipped):,} files without a direction of the test set: "
            f"{name_files(hypotheses.skipped, path)}."
        )
    if hypotheses.num_skipped_records:
        yield f"Skipping {hypotheses.num_skipped_records:,} records in languages that the test set lacks."
