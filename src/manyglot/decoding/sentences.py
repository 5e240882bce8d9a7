"""Long text into sentences, by a few rules for many scripts, and their translations into one text again."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator

from manyglot.corpus.scripts import script_of

_WIDE = "。！？｡"
_ENDS = ".!?…؟۔։।॥።፧။។៕" + _WIDE
_CLOSING = "\"'”’»›)\\]}」』）】〉》〕"
# A run of marks is tried at its first one only: the time is linear, also for a line of nothing but full stops.
_END = re.compile(rf"(?<![{_ENDS}])([{_ENDS}]++)[{_CLOSING}]*+(\s*+)")
_NO_END = re.compile(r"(?:^|[^\w])(?:[^\W\d_]|\d{1,2})$")
_WITHOUT_SPACES = {"Hans", "Hant", "Jpan"}


def split_sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a text, without the space between them.

    A full stop after an initial (J.) or a short number (3.) ends none, nor does one before a small letter.
    """
    start = 0
    for end in _END.finditer(text):
        if _is_end(text, end) and (sentence := text[start : end.end()].strip()):
            yield sentence
            start = end.end()
    if rest := text[start:].strip():
        yield rest


def join_sentences(sentences: Iterable[str], language: str) -> str:
    """The translations of a text's sentences as one text, with the space that a language has between them."""
    space = "" if script_of(language) in _WITHOUT_SPACES else " "
    return space.join(sentence for sentence in sentences if sentence)


def wrap(text: str, limit: int) -> Iterator[str]:
    """Yield a text in pieces of at most so many characters, cut at a space if there is one in the second half."""
    start = 0
    while start < len(text):
        piece = text[start : start + limit + 1]
        place = cutting_place(piece, limit)
        if words := piece[:place].strip():
            yield words
        start += place


def cutting_place(text: str, limit: int) -> int:
    """Where to cut a text so that at most `limit` characters are left, not between a letter and its marks."""
    if len(text) <= limit:
        return len(text)
    space = next((i for i in range(limit, limit // 2, -1) if text[i].isspace()), None)
    if space is not None:
        return space
    letter = next((i for i in range(limit, limit // 2, -1) if not unicodedata.category(text[i]).startswith("M")), None)
    return letter or limit


def _is_end(text: str, end: re.Match[str]) -> bool:
    marks, space = end.groups()
    if not space and end.end() < len(text):
        return any(mark in _WIDE for mark in marks)
    if marks != ".":
        return True
    before = text[max(0, end.start() - 3) : end.start()]
    return not _NO_END.search(before) and not text[end.end() : end.end() + 1].islower()
