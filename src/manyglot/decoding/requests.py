"""What is to be translated, from a stream or files: text, TSV or JSONL, a request a line.

Whatever the bytes are, each line is one request, in order. One that cannot be translated says why (`problem`) and is
answered by an empty result; what was changed in one that can is told in its `notes`.

    for block in in_blocks(read_requests([Path("news.txt")])):
        ...
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, Literal

from manyglot.corpus.languages import Languages
from manyglot.corpus.textfiles import read_pieces
from manyglot.decoding.lines import Line, split_lines, stream_pieces, without_controls
from manyglot.decoding.sentences import cutting_place, split_sentences, wrap
from manyglot.errors import LanguageError, ManyglotError

Form = Literal["text", "tsv", "jsonl"]

LIMIT = 10_000
"""Characters of a text beyond which it is cut or split."""

_DEEPEST = 100


@dataclass(frozen=True)
class Request:
    """A text and the languages to translate it into."""

    text: str
    to: tuple[str, ...] | None
    """The target languages; None where the request names none."""
    number: int
    """Its place among all requests, from 1."""
    place: str = ""
    """Where it stands, such as `line 7 of FILE`."""
    parts: tuple[str, ...] | None = None
    """The sentences of a text that was split."""
    problem: str = ""
    """Why it cannot be translated."""
    unknown: Mapping[str, str] = field(default_factory=dict)
    """Those of its languages that are not known, each with the reason; it is translated into the others."""
    notes: tuple[str, ...] = ()
    """What was changed in it, for the user."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Other keys of a JSON object, which come back in the result."""
    size: int = 0
    """The bytes of its line."""

    @property
    def sentences(self) -> tuple[str, ...]:
        """What to translate one by one; `join_result` joins the translations again."""
        return (self.text,) if self.parts is None else self.parts

    def into(self, languages: Languages, default: Sequence[str] = ()) -> Request:
        """The same request with the codes of its languages, or of the default ones.

        One that is not known keeps its name. It is a problem where no other is known, and so is no language, unless
        there is no text.
        """
        codes: dict[str, None] = {}
        unknown: dict[str, str] = {}
        for name in self.to or default:
            try:
                codes[languages.find(name)] = None
            except LanguageError as error:
                codes[name], unknown[name] = None, f"{self.place}: {error}"
        problem = "" if codes or not self.text.strip() else f"{self.place} names no target language."
        if unknown and len(unknown) == len(codes):
            problem = next(iter(unknown.values()))
        return replace(self, to=tuple(codes) or None, problem=self.problem or problem, unknown=unknown)


@dataclass(frozen=True)
class Columns:
    """The columns of a TSV file, by number from 1 or by the name that the first line gives them."""

    text: int | str = 1
    to: int | str | None = 2
    """None where no column has the target language."""
    header: bool = False
    """Whether the first line has names; it does where a column is given by one."""

    def __post_init__(self) -> None:
        for column in (self.text, self.to):
            if isinstance(column, int) and column < 1:
                raise ManyglotError(f"There is no column {column}; columns are counted from 1.")

    @property
    def has_header(self) -> bool:
        """Whether the first line of a file is no request."""
        return self.header or isinstance(self.text, str) or isinstance(self.to, str)


def read_columns(text: str) -> Columns:
    """Columns as people write them: `1,2`, `text,lang`, or `3` where no column has a target."""
    first, comma, second = (part.strip() for part in text.partition(","))
    if not first or (comma and not second) or "," in second:
        raise ManyglotError(f"--columns is {text!r}; it should be such as 1,2 or text,lang or 3.")
    place, target = (int(part) if part.isdecimal() else part for part in (first, second))
    return Columns(place, target or None)


def read_requests(
    source: BinaryIO | Sequence[Path | BinaryIO],
    form: Form = "text",
    *,
    columns: Columns = Columns(),
    limit: int = LIMIT,
    split: bool = False,
) -> Iterator[Request]:
    """Yield a request for each line of a stream or of files and streams, one after the other.

    A text of more than `limit` characters is cut at a space; with `split`, it is split into sentences instead. A file
    that is missing or that is not what its name says is an error, for what it should have held is not known.
    """
    if limit < 2:
        raise ManyglotError(f"The limit of a text is {limit} characters; it should be 2 or more.")
    sources = source if isinstance(source, Sequence) else [source]
    files = [(str(s), read_pieces(s)) if isinstance(s, Path) else ("stdin", stream_pieces(s)) for s in sources]
    every = chain.from_iterable(_read_file(split_lines(pieces, name), name, form, columns) for name, pieces in files)
    for number, found in enumerate(every, start=1):
        yield _fitted(replace(found, number=number), limit, split)


def in_blocks(requests: Iterable[Request], most: int = 4096, most_bytes: int = 2**23) -> Iterator[list[Request]]:
    """Yield requests to be translated together: enough to sort by length, and never more than fit into memory."""
    block: list[Request] = []
    size = 0
    for request in requests:
        block.append(request)
        size += request.size
        if len(block) == most or size >= most_bytes:
            yield block
            block, size = [], 0
    if block:
        yield block


def count_lines(paths: Sequence[Path]) -> int:
    """How many requests files have, if they can be read twice; a header counts."""
    total = 0
    for path in paths:
        last = b"\n"
        for piece in filter(None, read_pieces(path)):
            total, last = total + piece.count(b"\n"), piece[-1:]
        total += last != b"\n"
    return total


def _read_file(lines: Iterator[Line], name: str, form: Form, columns: Columns) -> Iterator[Request]:
    """The requests of one file, not numbered yet."""
    parse: Callable[[Line], Request] = _from_json if form == "jsonl" else _from_text
    if form == "tsv":
        header = next(lines, None) if columns.has_header else None
        names = header.text.split("\t") if header else []
        if columns.has_header and header is None:  # an empty file
            return
        to = None if columns.to is None else _place(columns.to, names, name)
        parse = partial(_from_tsv, text=_place(columns.text, names, name), to=to)
    for line in lines:
        blank = line.problem or not line.text.strip()
        found = Request("", None, 0, problem=line.problem) if blank else parse(line)
        yield replace(found, place=line.place, size=line.size)


def _from_text(line: Line) -> Request:
    return Request(line.text, None, 0)


def _from_tsv(line: Line, text: int, to: int | None) -> Request:
    cells, needed = line.text.split("\t"), 1 + max(text, to or 0)
    if len(cells) < needed:
        found = "1 column" if len(cells) == 1 else f"{len(cells)} columns"
        return _bad(f"{line.place} has {found} and should have {needed}, separated by tabs.")
    names = [] if to is None else cells[to].split(",")
    return Request(cells[text], tuple(name.strip() for name in names if name.strip()) or None, 0)


def _from_json(line: Line) -> Request:
    try:
        value = _read_json(line.text)
    except (ValueError, RecursionError) as error:
        reason = re.sub(r": line 1 column (\d+) \(char \d+\)", r" at character \1", str(error))
        return _bad(f"{line.place} is not JSON ({reason}).")
    expected = f'{line.place} should be an object with a "text", such as {{"text": "…", "to": "de"}}.'
    if not isinstance(value, dict):
        return _bad(expected)
    extra = {key: other for key, other in value.items() if key not in ("text", "to")}  # also of one that is refused
    to = value.get("to")
    names = [to] if isinstance(to, str) else to or []
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        return replace(_bad(f'{line.place}: "to" should be a language or a list of languages.'), extra=extra)
    if not isinstance(value.get("text"), str):
        return replace(_bad(expected), to=tuple(names) or None, extra=extra)
    return Request(value["text"], tuple(names) or None, 0, extra=extra)


def _read_json(text: str) -> Any:
    """JSON that can be written again: without infinite numbers, and not nested beyond reason."""

    def finite(number: str) -> float:
        if not math.isfinite(value := float(number)):
            raise ValueError(f"{number[:20]} is no number")
        return value

    if text.count("[") + text.count("{") > _DEEPEST:
        depth = deepest = 0
        for mark in re.findall(r'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)|[\[\]{}]', text):
            depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(mark, 0)
            deepest = max(deepest, depth)
        if deepest > _DEEPEST:
            raise ValueError(f"nested more than {_DEEPEST} times")
    return json.loads(text, strict=False, parse_constant=finite, parse_float=finite)


def _bad(problem: str) -> Request:
    return Request("", None, 0, problem=problem)


def _fitted(request: Request, limit: int, split: bool) -> Request:
    """A request whose text is nothing but text and not too long, with notes of what was done for that."""
    text, removed = without_controls(request.text)
    notes = [f"{request.place}: control characters were removed ({removed})."] if removed else []
    parts = None
    if len(text) > limit and split:
        parts = tuple(piece for sentence in split_sentences(text) for piece in wrap(sentence, limit))
    elif len(text) > limit:
        place = cutting_place(text, limit)
        notes.append(f"{request.place} has {len(text):,} characters; it was cut after {place:,}.")
        text = text[:place]
    return replace(request, text=text, parts=parts, notes=tuple(notes))


def _place(column: int | str, header: Sequence[str], name: str) -> int:
    """The place of a column in a row, from 0."""
    if isinstance(column, int):
        return column - 1
    if column not in header:
        raise ManyglotError(f"{name} has no column '{column}'; its first line names {', '.join(header)[:200]}.")
    return header.index(column)
