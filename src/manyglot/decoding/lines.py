"""Lines of whatever is given to translate: a line that cannot be used is marked, and the others are not stopped by it.

Memory is bounded, also by a line without an end: text comes in pieces, and of a line that is too long only its place is
kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import BinaryIO, NamedTuple

LONGEST_LINE = 2**20
"""Bytes of a line beyond which it is left out."""

_SPACES = re.compile("[\r\n\v\f\x1c-\x1e\x85]")
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_HALVES = re.compile("[\ud800-\udfff]")


class Line(NamedTuple):
    """A line, or why it cannot be used."""

    text: str
    place: str
    """Such as `line 7 of FILE`."""
    size: int = 0
    """Its bytes."""
    problem: str = ""


def stream_pieces(stream: BinaryIO) -> Iterator[bytes]:
    """Yield the bytes of a stream as they come."""
    read = getattr(stream, "read1", stream.read)
    while piece := read(2**16):
        yield piece


def split_lines(pieces: Iterable[bytes], name: str, longest: int = LONGEST_LINE) -> Iterator[Line]:
    """Put the lines together that a newline ends, and nothing else: the Unicode separators are part of sentences."""
    for number, line in enumerate(_whole(pieces, longest), start=1):
        place = f"line {number} of {name}"
        if line is None:
            yield Line("", place, problem=f"{place} is longer than {longest:,} bytes and was left out; break it up.")
            continue
        try:
            text = line.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r")
        except UnicodeDecodeError:
            yield Line("", place, len(line), f"{place} is not UTF-8; convert the text first.")
        else:
            yield Line(text, place, len(line))


def _whole(pieces: Iterable[bytes], longest: int) -> Iterator[bytes | None]:
    """The lines without their ends; None for one that is too long."""
    held, too_long = b"", False
    for piece in pieces:
        *ended, last = piece.split(b"\n")
        for part in ended:
            too_long = too_long or len(held) + len(part) > longest
            yield None if too_long else held + part
            held, too_long = b"", False
        too_long = too_long or len(held) + len(last) > longest
        held = b"" if too_long else held + last
    if held or too_long:
        yield None if too_long else held


def without_controls(text: str) -> tuple[str, int]:
    """A text without what is no text, and how many characters that were; ends of lines become spaces, tabs stay."""
    text, spaces = _SPACES.subn(" ", text)
    text, controls = _CONTROLS.subn("", text)
    text, halves = _HALVES.subn("\ufffd", text)  # half a character, by an escape in JSON
    return text, spaces + controls + halves
