"""Reads translation requests from a stream or files: text, TSV or JSONL, one request per line.

Any sequence of bytes is valid input, and each line becomes one request, in order. A request that cannot be translated
carries the reason in `problem` and gets an empty result. `notes` lists the changes made to the text of a request.

    for block in group_into_blocks(read_requests([Path("news.txt")])):
        ...
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, Literal

from manyglot.corpus.decompression import read_input_blocks
from manyglot.corpus.languages import Languages
from manyglot.decoding.input_lines import InputLine, iter_stream_chunks, remove_control_characters, split_at_newlines
from manyglot.decoding.text_splitter import cut_index
from manyglot.errors import LanguageError, ManyglotError
from manyglot.files import parse_json

TextFormat = Literal["text", "tsv", "jsonl"]

ALL_LANGUAGES = "all"
"""The name that stands for all target languages."""

MAX_UNKNOWN_LANGUAGES = 100
"""Maximum number of unknown target languages of a request. Each of them gets an explanation."""


@dataclass(frozen=True)
class TranslationRequest:
    """A text and the languages to translate it into."""

    text: str
    targets: tuple[str, ...] | None
    """Target languages, or None if the request names none."""
    number: int
    """Number of the request in the input, from 1."""
    location: str = ""
    """Where the request comes from, such as `line 7 of FILE`."""
    source: str | None = None
    """Language of the text, or None if it is unknown."""
    translation: str | None = None
    """A given translation of the text, to be scored, or None if there is none."""
    problem: str = ""
    """Why the request cannot be translated."""
    unknown_languages: Mapping[str, str] = field(default_factory=dict)
    """Unknown target languages, each with an explanation. The request is translated into the others."""
    notes: tuple[str, ...] = ()
    """Changes made to the text, as messages to the user."""
    extra_fields: Mapping[str, Any] = field(default_factory=dict)
    """Other fields of a JSON request, which are copied to the result."""
    num_bytes: int = 0
    """Size of the input line."""

    @property
    def known_targets(self) -> list[str]:
        """The codes of the languages to translate into, after `resolve_languages`."""
        return [] if self.problem else [code for code in self.targets or () if code not in self.unknown_languages]

    def resolve_languages(
        self,
        target_languages: Languages,
        source_languages: Languages,
        default_targets: Sequence[str] = (),
        default_source: str | None = None,
    ) -> TranslationRequest:
        """Return a copy with the language codes of its own targets and source, or of the defaults.

        An unknown target keeps its name. If no target is known, a nonempty request has none, or its source is unknown,
        it gets a problem.
        """
        codes: dict[str, None] = {}
        unknown: dict[str, str] = {}
        for name in expand_all(self.targets or default_targets, target_languages):
            try:
                codes[target_languages.find_code(name)] = None
            except LanguageError as error:
                codes[name], unknown[name] = None, f"{self.location}: {error}"
            if len(unknown) > MAX_UNKNOWN_LANGUAGES:
                problem = f"{self.location} names more than {MAX_UNKNOWN_LANGUAGES} unknown target languages."
                return replace(self, targets=None, problem=self.problem or problem)
        problem = "" if codes or not self.text.strip() else f"{self.location} names no target language."
        if unknown and len(unknown) == len(codes):
            problem = next(iter(unknown.values()))
        source = self.source or default_source
        try:
            source = None if source is None else source_languages.find_code(source)
        except LanguageError as error:
            source, problem = None, f"{self.location}: {error}"
        return replace(
            self,
            targets=tuple(codes) or None,
            source=source,
            problem=self.problem or problem,
            unknown_languages=unknown,
        )


def expand_all(names: Iterable[str], languages: Languages) -> list[str]:
    """Replace `all` by all languages, unless it is the code of one of them."""
    return [
        code
        for name in dict.fromkeys(names)
        for code in (languages if name == ALL_LANGUAGES and name not in languages else (name,))
    ]


@dataclass(frozen=True)
class TsvColumns:
    """The columns of a TSV file to read, by number (from 1) or by their name in the header."""

    text: int | str = 1
    target: int | str | None = 2
    """None if no column holds target languages."""
    source: int | str | None = None
    """None if no column holds source languages."""
    translation: int | str | None = None
    """The column of given translations, which are scored."""
    header: bool = False
    """Whether the first line is a header. Naming a column implies it."""

    def __post_init__(self) -> None:
        for column in self.all_columns:
            if isinstance(column, int) and column < 1:
                raise ManyglotError(f"--columns: there is no column {column}. Columns are counted from 1.")

    @property
    def all_columns(self) -> tuple[int | str | None, ...]:
        """All columns, in the order of the option."""
        return self.text, self.target, self.source, self.translation

    @property
    def has_header(self) -> bool:
        """Whether the first line of each file is a header instead of a request."""
        return self.header or any(isinstance(column, str) for column in self.all_columns)


def parse_tsv_columns(text: str) -> TsvColumns:
    """Parse the value of `--columns`: the columns of text, target and source, such as `1,2`, `text,to,from` or `3`.

    A fourth column holds given translations. Target and source may be empty if another column follows: `1,,2`.
    """
    first, *others = (part.strip() for part in text.split(","))
    if not first or len(others) > 3 or (others and not others[-1]):
        raise ManyglotError(
            f"--columns: cannot parse {text!r}. Give a text, a target and a source column, such as 1,2 or text,to,from."
        )
    column, target, source, translation = (
        int(part) if part.isdecimal() else part or None for part in (first, *others, *[""] * (3 - len(others)))
    )
    assert column is not None
    return TsvColumns(column, target, source, translation)


def read_requests(
    source: BinaryIO | Sequence[Path | BinaryIO],
    text_format: TextFormat = "text",
    *,
    columns: TsvColumns = TsvColumns(),
    max_chars: int | None = None,
) -> Iterator[TranslationRequest]:
    """Yield one request per line of a stream, or of several files and streams in turn.

    A text of more than `max_chars` characters is cut at a space. A missing or damaged file raises an error, because its
    requests are unknown.
    """
    sources = source if isinstance(source, Sequence) else [source]
    files = [
        (str(s), read_input_blocks(s)) if isinstance(s, Path) else ("stdin", iter_stream_chunks(s)) for s in sources
    ]
    requests = chain.from_iterable(
        _read_file(split_at_newlines(chunks, name), name, text_format, columns) for name, chunks in files
    )
    for number, request in enumerate(requests, start=1):
        yield _clean_and_shorten(replace(request, number=number), max_chars)


def group_into_blocks(
    requests: Iterable[TranslationRequest], max_requests: int = 4096, max_bytes: int = 2**23
) -> Iterator[list[TranslationRequest]]:
    """Yield blocks of requests to translate together: enough to sort by length, within a limit on memory."""
    block: list[TranslationRequest] = []
    num_bytes = 0
    for request in requests:
        block.append(request)
        num_bytes += request.num_bytes
        if len(block) == max_requests or num_bytes >= max_bytes:
            yield block
            block, num_bytes = [], 0
    if block:
        yield block


def count_lines(paths: Sequence[Path]) -> int:
    """Return the number of lines in files, headers included."""
    total = 0
    for path in paths:
        last_byte = b"\n"
        for chunk in filter(None, read_input_blocks(path)):
            total, last_byte = total + chunk.count(b"\n"), chunk[-1:]
        total += last_byte != b"\n"
    return total


def _read_file(
    lines: Iterator[InputLine], name: str, text_format: TextFormat, columns: TsvColumns
) -> Iterator[TranslationRequest]:
    """Yield the requests of one file, without numbers."""
    parse: Callable[[InputLine], TranslationRequest] = _from_json if text_format == "jsonl" else _from_text
    if text_format == "tsv":
        header = next(lines, None) if columns.has_header else None
        names = header.text.split("\t") if header else []
        if columns.has_header and header is None:  # an empty file
            return
        text, target, source, translation = (
            None if column is None else _column_index(column, names, name) for column in columns.all_columns
        )
        assert text is not None
        parse = partial(
            _from_tsv, text_column=text, target_column=target, source_column=source, translation_column=translation
        )
    for line in lines:
        blank = line.problem or not line.text.strip()
        request = TranslationRequest("", None, 0, problem=line.problem) if blank else parse(line)
        yield replace(request, location=line.location, num_bytes=line.num_bytes)


def _from_text(line: InputLine) -> TranslationRequest:
    return TranslationRequest(line.text, None, 0)


def _from_tsv(
    line: InputLine,
    text_column: int,
    target_column: int | None,
    source_column: int | None,
    translation_column: int | None,
) -> TranslationRequest:
    cells = line.text.split("\t")
    num_needed = 1 + max(text_column, target_column or 0, source_column or 0, translation_column or 0)
    if len(cells) < num_needed:
        columns = "1 column" if len(cells) == 1 else f"{len(cells)} columns"
        return _failed_request(f"{line.location} has {columns}; expected {num_needed}, separated by tabs.")
    names = [] if target_column is None else cells[target_column].split(",")
    targets = tuple(name.strip() for name in names if name.strip()) or None
    source = "" if source_column is None else cells[source_column].strip()
    translation = None if translation_column is None else cells[translation_column]
    return TranslationRequest(cells[text_column], targets, 0, source=source or None, translation=translation)


def _from_json(line: InputLine) -> TranslationRequest:
    try:
        value = parse_json(line.text, strict=False)
    except ValueError as error:
        reason = re.sub(r": line 1 column (\d+) \(char \d+\)", r" at character \1", str(error))
        return _failed_request(f"{line.location} is not valid JSON ({reason}).")
    no_text = f'{line.location} is not an object with a "text", such as {{"text": "…", "to": "de"}}.'
    if not isinstance(value, dict):
        return _failed_request(no_text)
    extra_fields = {key: other for key, other in value.items() if key not in ("text", "to")}
    to = value.get("to")
    names = [to] if isinstance(to, str) else to or []
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        return replace(
            _failed_request(f'{line.location}: "to" must be a language or a list of languages.'),
            extra_fields=extra_fields,
        )
    targets, source = tuple(names) or None, value.get("from")
    if not isinstance(value.get("text"), str):
        return replace(_failed_request(no_text), targets=targets, extra_fields=extra_fields)
    if source is not None and not isinstance(source, str):
        problem = f'{line.location}: "from" must be a language.'
        return replace(_failed_request(problem), targets=targets, extra_fields=extra_fields)
    output = value.get("output")
    return TranslationRequest(
        value["text"],
        targets,
        0,
        source=source or None,
        translation=output if isinstance(output, str) else None,
        extra_fields=extra_fields,
    )


def _failed_request(problem: str) -> TranslationRequest:
    return TranslationRequest("", None, 0, problem=problem)


def _clean_and_shorten(request: TranslationRequest, max_chars: int | None) -> TranslationRequest:
    """Remove control characters and cut a long text. Changes are listed in the notes."""
    text, num_removed = remove_control_characters(request.text)
    notes = [f"{request.location}: control characters removed: {num_removed}."] if num_removed else []
    if max_chars is not None and len(text) > max_chars:
        end = cut_index(text, max_chars)
        notes.append(f"{request.location} has {len(text):,} characters and was cut after {end:,}.")
        text = text[:end]
    translation = None if request.translation is None else remove_control_characters(request.translation)[0]
    return replace(request, text=text, translation=translation, notes=tuple(notes))


def _column_index(column: int | str, header: Sequence[str], name: str) -> int:
    """Return the index of a column, from 0."""
    if isinstance(column, int):
        return column - 1
    if column not in header:
        raise ManyglotError(f"{name} has no column '{column}'. Its header has: {', '.join(header)[:200]}.")
    return header.index(column)
