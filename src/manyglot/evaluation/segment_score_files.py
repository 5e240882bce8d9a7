"""Sentence scores of other metrics, in the formats that the metrics write.

| file | content |
|---|---|
| .json | `comet-score --to_json`: a list of sentences for each translation file |
| .jsonl, .tsv with column names | a record per sentence: MetricX (`prediction`), or a column with the metric's name |
| others | a number per line, alone or in the last cell; also what `comet-score` prints |

The direction comes from columns, from the names of the translation files, or from the name of the score file.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any

from manyglot.corpus.decompression import uncompressed_name
from manyglot.corpus.languages import Direction, Languages
from manyglot.corpus.textfiles import read_lines
from manyglot.errors import CorpusError, FolderError, shorten
from manyglot.evaluation.direction_names import DirectionNames
from manyglot.evaluation.hypotheses import TextLines, find_files
from manyglot.evaluation.translation_records import (
    Record,
    code_finder,
    find_column,
    find_direction_columns,
    is_record_file,
    read_records,
)
from manyglot.files import read_json

MAX_JSON_BYTES = 2**30
SCORE_COLUMNS = ("score", "comet", "prediction", "segment_score")
"""Columns of scores, in any case, if no column has the metric's name."""
OUTPUT_COLUMNS = ("mt", "hypothesis", "hyp", "output", "translation")
"""Columns of the translations that were scored."""
_COMET_LINE = re.compile(r"(?P<file>[^\t]*)\tSegment \d+\tscore: (?P<score>\S+)(\tvariance: \S+)?")
_NON_FINITE_VALUE = re.compile(r":\s*-?(NaN|Infinity)\b")
_COMET_SUMMARY = re.compile(r"[^\t]*\tscore: \S+|Predictions saved in: .*")


@dataclass
class SegmentScores:
    """The sentence scores of a metric, by direction; None stands for all directions, one after the other."""

    scores: dict[Direction | None, TextLines] = field(default_factory=dict)
    outputs: dict[Direction | None, TextLines] = field(default_factory=dict)
    """The translations that were scored, where the files have them."""
    files: set[Path] = field(default_factory=set)
    skipped: list[Path] = field(default_factory=list)
    num_skipped_scores: int = 0
    """Number of scores in languages that the test set lacks."""
    is_metricx: bool = False
    """Whether the files are MetricX's, whose scores are errors."""


def read_segment_scores(path: Path, metric: str, languages: Languages) -> SegmentScores:
    """Read the sentence scores of a metric from a file, or from all files in a folder."""
    if not path.exists():
        raise CorpusError(f"--metric {metric}: {path} does not exist. Give a file or a folder with scores.")
    scores, names, find_code = SegmentScores(), DirectionNames(languages), code_finder(languages)
    for file in find_files(path) if path.is_dir() else [path]:
        named = names.parse(file.relative_to(path) if path.is_dir() else PurePath(path.name))
        if path.is_dir() and named.direction is None and not _may_name_directions(file):
            scores.skipped.append(file)
            continue
        before = sum(len(lines.lines) for lines in scores.scores.values()) + scores.num_skipped_scores
        for entry in _read_file(file, metric):
            _add_score(scores, entry, named.direction, names, find_code)
        if sum(len(lines.lines) for lines in scores.scores.values()) + scores.num_skipped_scores == before:
            raise CorpusError(f"{file} has no scores. Write one score per sentence.")
        scores.files.add(file)
    if not scores.scores:
        raise CorpusError(f"--metric {metric}: {path} has no scores between languages of the test set.")
    return scores


@dataclass(frozen=True)
class _Entry:
    """The score of a sentence, as a file has it."""

    path: Path
    line: int
    score: Any
    translation_file: str = ""
    """The name of the translation file, if the score file has it."""
    record: Record | None = None

    @property
    def place(self) -> str:
        return f"{self.path}, line {self.line}" if self.record is None else self.record.place


def _may_name_directions(path: Path) -> bool:
    return is_record_file(path) or Path(uncompressed_name(path)).suffix == ".json"


def _read_file(path: Path, metric: str) -> Iterator[_Entry]:
    if Path(uncompressed_name(path)).suffix == ".json":
        return _read_comet_json(path, metric)
    if is_record_file(path) and not _is_table_of_numbers(path):
        return _read_score_records(path, metric)
    return _read_numbers(path)


def _is_table_of_numbers(path: Path) -> bool:
    """Whether the first line of a TSV file has a score rather than names of columns."""
    first = next(read_lines(path), "")
    return not first.startswith("{") and (_COMET_LINE.fullmatch(first) is not None or _is_number(first.split("\t")[-1]))


def _read_comet_json(path: Path, metric: str) -> Iterator[_Entry]:
    try:
        values = read_json(path, MAX_JSON_BYTES)
    except FolderError:
        if line := _find_non_finite_number(path):
            raise CorpusError(f"{path}, line {line}: the score is not a finite number. Correct it.") from None
        raise
    by_file = values if isinstance(values, dict) else {"": values}
    for name, sentences in by_file.items():
        if not isinstance(sentences, list) or not all(isinstance(sentence, dict) for sentence in sentences):
            raise CorpusError(
                f"{path} is not a list of sentences for each file, as `comet-score --to_json` writes it. Score again."
            )
        for number, cells in enumerate(sentences, start=1):
            record = Record(path, number, cells, "sentence")
            yield _Entry(path, number, cells[_score_column(record, metric)], name, record)


def _find_non_finite_number(path: Path) -> int | None:
    """Return the first line of a JSON file with a value such as NaN, which JSON does not have."""
    return next((n for n, line in enumerate(read_lines(path), start=1) if _NON_FINITE_VALUE.search(line)), None)


def _read_score_records(path: Path, metric: str) -> Iterator[_Entry]:
    column: str | None = None
    for record in read_records(path):
        column = column or _score_column(record, metric)
        yield _Entry(path, record.line, record.cells[column], record=record)


def _score_column(record: Record, metric: str) -> str:
    columns = {str(name).casefold(): name for name in record.cells}
    for name in (metric.casefold(), *SCORE_COLUMNS):
        if name in columns:
            return columns[name]
    raise CorpusError(
        f"{record.place} has no column '{metric}' or 'score'; it has {record.describe_columns()}. "
        f"Name the metric as its column."
    )


def _read_numbers(path: Path) -> Iterator[_Entry]:
    for number, line in enumerate(read_lines(path), start=1):
        if match := _COMET_LINE.fullmatch(line):
            yield _Entry(path, number, match["score"], match["file"])
        elif not _COMET_SUMMARY.fullmatch(line):
            yield _Entry(path, number, line.split("\t")[-1])


def _add_score(
    scores: SegmentScores,
    entry: _Entry,
    named: Direction | None,
    names: DirectionNames,
    find_code: Callable[[str], str | None],
) -> None:
    """Add a score to its direction; raise an error if it is not a finite number."""
    if not _is_number(entry.score):
        raise CorpusError(f"{entry.place}: the score {shorten(repr(entry.score))} is not a finite number. Correct it.")
    direction = named
    if entry.translation_file and named is None:
        direction = names.parse(PurePath(entry.translation_file)).direction
    record = entry.record
    if record is not None and (columns := find_direction_columns(record)):
        direction = columns.direction(record, find_code)
        if direction is None:
            scores.num_skipped_scores += 1
            return
    _append(scores.scores, direction, entry, str(float(entry.score)))
    if record is not None:
        scores.is_metricx |= "prediction" in record.cells
        output = find_column(record, OUTPUT_COLUMNS)
        if output is not None and isinstance(record.cells[output], str):
            _append(scores.outputs, direction, entry, record.cells[output])


def _append(
    lines_by_direction: dict[Direction | None, TextLines], direction: Direction | None, entry: _Entry, text: str
) -> None:
    unit = "line" if entry.record is None else entry.record.unit
    lines = lines_by_direction.setdefault(direction, TextLines(entry.path, [], [], unit))
    if lines.path != entry.path:
        what = "all directions" if direction is None else str(direction)
        raise CorpusError(f"{lines.path} and {entry.path} both have scores of {what}. Remove one of them.")
    assert isinstance(lines.line_numbers, list)
    lines.lines.append(text)
    lines.line_numbers.append(entry.line)


def _is_number(value: Any) -> bool:
    """Whether a value is a finite number, or text of one."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return False
    try:
        return math.isfinite(float(value))
    except (ValueError, OverflowError):
        return False


def unknown_directions(scores: Mapping[Direction | None, TextLines], known: Sequence[Direction]) -> list[Direction]:
    """Return the directions of scores that have no translations."""
    return sorted({direction for direction in scores if direction is not None} - set(known))
