"""Joins lines of text or scores with the sentences of a test set, by direction and position.

The lines of a direction are one per sentence that has a source and a reference. A system may also have translated every
source sentence, or every line of the test files, or only the sentences that an evaluation selects. Each of these sets
contains the next smaller one, so the number of lines tells them apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import accumulate
from typing import NamedTuple

from manyglot.corpus.base import Row
from manyglot.corpus.languages import Direction, Languages, enumerate_directions
from manyglot.corpus.textfiles import to_single_line
from manyglot.errors import CorpusError, shorten
from manyglot.evaluation.hypotheses import Hypotheses, TextLines
from manyglot.evaluation.packed_texts import PackedTexts
from manyglot.evaluation.test_set_translation import EvaluationSet


class AlignedLines(NamedTuple):
    """The lines of a direction for the sentences of an evaluation set: `indices` into the lines of a file."""

    lines: TextLines
    indices: Sequence[int]

    def texts(self) -> list[str]:
        """Return the lines in the order of the evaluation set."""
        return [self.lines.lines[index] for index in self.indices]

    def packed_texts(self) -> PackedTexts:
        """Return the same lines in little memory."""
        lines = self.lines.lines
        if isinstance(lines, PackedTexts) and self.indices == range(len(lines)):
            return lines
        return PackedTexts(self.texts())


class TestRows:
    """The rows of a test set, and the sentences that lines of text may stand for."""

    __test__ = False  # no test of pytest

    def __init__(self, rows: Sequence[Row], languages: Languages) -> None:
        self.rows, self.languages = rows, languages

    def directions(self) -> list[Direction]:
        """Return all directions with test text."""
        pairs = {(source, target) for codes in self._language_sets for source in codes for target in codes}
        return [direction for direction in enumerate_directions(self.languages) if direction in pairs]

    @cached_property
    def _language_sets(self) -> set[frozenset[str]]:
        return {frozenset(row) for row in self.rows}

    def align(self, direction: Direction, lines: TextLines, selected: Sequence[Row]) -> AlignedLines:
        """Find the line of each selected row; raise an error if the number of lines fits no set of sentences."""
        num_lines = len(lines.lines)
        if num_lines == len(selected):
            return AlignedLines(lines, range(num_lines))
        sizes = [len(selected)]
        for rows in self._row_sets(direction):
            if num_lines == len(rows):
                position = {id(row): i for i, row in enumerate(rows)}
                return AlignedLines(lines, [position[id(row)] for row in selected])
            sizes.append(len(rows))
        expected = " or ".join(f"{size:,}" for size in dict.fromkeys(sizes))
        raise CorpusError(
            f"{lines.path} has {num_lines:,} {lines.unit}s for {direction}, but the test set has {expected} sentences; "
            f"{_first_wrong_line(lines, sizes)}. Write one line per sentence, in the order of the test set."
        )

    def _row_sets(self, direction: Direction) -> Iterator[Sequence[Row]]:
        yield [row for row in self.rows if direction.source in row and direction.target in row]
        yield [row for row in self.rows if direction.source in row]
        yield self.rows


def _first_wrong_line(lines: TextLines, sizes: Sequence[int]) -> str:
    """Say which line is missing or superfluous, compared with the number of sentences that is nearest."""
    size = min(sizes, key=lambda size: abs(size - len(lines.lines)))
    if size < len(lines.lines):
        return f"{lines.place(size).rpartition(', ')[2]} is the first one without a sentence"
    if lines.line_numbers is not None:
        return f"the last one is {lines.place(len(lines.lines) - 1).rpartition(', ')[2]}"
    return f"line {len(lines.lines) + 1} is missing"


def split_by_direction(
    lines_by_target: Mapping[str, TextLines], rows_by_direction: Mapping[Direction, Sequence[Row]]
) -> dict[Direction, TextLines]:
    """Split files of all directions into a language, in the order of the source codes."""
    split: dict[Direction, TextLines] = {}
    for target, lines in lines_by_target.items():
        directions = sorted(d for d in rows_by_direction if d.target == target)
        split |= split_lines_by_size(
            lines, {d: len(rows_by_direction[d]) for d in directions}, f"directions into {target}"
        )
    return split


def split_lines_by_size(lines: TextLines, sizes: Mapping[Direction, int], what: str) -> dict[Direction, TextLines]:
    """Split the lines of a file into consecutive directions of the given sizes."""
    total = sum(sizes.values())
    if len(lines.lines) != total:
        raise CorpusError(
            f"{lines.path} has {len(lines.lines):,} {lines.unit}s, but the {len(sizes):,} {what} have {total:,} "
            f"sentences in the test set. Write one line per sentence."
        )
    starts = [0, *accumulate(sizes.values())]
    return {
        direction: TextLines(lines.path, lines.lines[start:end], range(start + 1, end + 1))
        for direction, start, end in zip(sizes, starts[:-1], starts[1:], strict=True)
    }


def align_outputs(
    test: TestRows, evaluation_set: EvaluationSet, hypotheses: Hypotheses
) -> dict[Direction, AlignedLines]:
    """Return the outputs of each direction; raise an error if their sources or references differ from the test set."""
    outputs = hypotheses.outputs | split_by_direction(hypotheses.outputs_by_target, evaluation_set.rows_by_direction)
    aligned = {}
    for direction, rows in evaluation_set.rows_by_direction.items():
        aligned[direction] = test.align(direction, outputs[direction], rows)
        for name, code, given in (
            ("source", direction.source, hypotheses.sources),
            ("reference", direction.target, hypotheses.references),
        ):
            if direction in given:
                _check_same_text(
                    test.align(direction, given[direction], rows), name, direction, [row[code] for row in rows]
                )
    return aligned


def _check_same_text(given: AlignedLines, name: str, direction: Direction, expected: Sequence[str]) -> None:
    """Raise an error at the first sentence that differs from the test set's."""
    for index, text, test_text in zip(given.indices, given.texts(), expected, strict=True):
        if text != test_text and to_single_line(text) != to_single_line(test_text):
            is_shuffled = sorted(map(to_single_line, given.texts())) == sorted(map(to_single_line, expected))
            advice = (
                "The sentences are in another order; sort them as in the test set."
                if is_shuffled
                else "Translate the sentences of this test set, or correct the direction in the file's name."
            )
            raise CorpusError(
                f"{given.lines.place(index)}: the {name} of {direction} is '{shorten(text, 40)}', but the test set has "
                f"'{shorten(test_text, 40)}'. {advice}"
            )
