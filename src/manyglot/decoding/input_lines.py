"""Splits input bytes into lines and marks the unusable ones, so that one bad line does not stop the others.

Memory is bounded even if a line never ends: bytes arrive in chunks, and only the location of an overlong line is kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import BinaryIO, NamedTuple

from manyglot.corpus.textfiles import split_lines

MAX_LINE_BYTES = 2**20
"""Maximum size of a line. Longer lines are skipped."""

_LINE_SEPARATORS = re.compile("[\r\n\v\f\x1c-\x1e\x85]")
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_SURROGATES = re.compile("[\ud800-\udfff]")


class InputLine(NamedTuple):
    """A decoded line, or the reason why it cannot be used."""

    text: str
    location: str
    """Where the line comes from, such as `line 7 of FILE`."""
    num_bytes: int = 0
    problem: str = ""


def iter_stream_chunks(stream: BinaryIO) -> Iterator[bytes]:
    """Yield the bytes of a stream as they arrive."""
    read = getattr(stream, "read1", stream.read)
    while chunk := read(2**16):
        yield chunk


def split_at_newlines(chunks: Iterable[bytes], name: str, max_bytes: int = MAX_LINE_BYTES) -> Iterator[InputLine]:
    """Yield the lines in chunks of bytes. Only newlines end a line; Unicode separators are part of the text."""
    for number, line in enumerate(split_lines(chunks, max_bytes), start=1):
        location = f"line {number} of {name}"
        if line is None:
            problem = f"{location} is longer than {max_bytes:,} bytes and was skipped. Split it into shorter lines."
            yield InputLine("", location, problem=problem)
            continue
        try:
            text = line.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r")
        except UnicodeDecodeError:
            yield InputLine("", location, len(line), f"{location} is not valid UTF-8. Convert the input to UTF-8.")
        else:
            yield InputLine(text, location, len(line))


def remove_control_characters(text: str) -> tuple[str, int]:
    """Return the text without control characters and the number of characters changed.

    Line separators become spaces, and tabs stay. Lone surrogates become U+FFFD.
    """
    text, num_separators = _LINE_SEPARATORS.subn(" ", text)
    text, num_controls = _CONTROLS.subn("", text)
    text, num_surrogates = _SURROGATES.subn("\ufffd", text)  # from an escape in JSON
    return text, num_separators + num_controls + num_surrogates
