"""Splits long text into sentences by a few rules for many scripts, and joins their translations again."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator

from manyglot.corpus.scripts import language_script_code

_FULL_WIDTH_ENDS = "。！？｡"
_ENDS = ".!?…؟۔։।॥።፧။។៕" + _FULL_WIDTH_ENDS
_CLOSING = "\"'”’»›)\\]}」』）】〉》〕"
# A run of marks matches only at its first mark, so the time is linear even for a line of nothing but periods.
_SENTENCE_END = re.compile(rf"(?<![{_ENDS}])([{_ENDS}]++)[{_CLOSING}]*+(\s*+)")
_INITIAL_OR_NUMBER = re.compile(r"(?:^|[^\w])(?:[^\W\d_]|\d{1,2})$")
_SCRIPTS_WITHOUT_SPACES = {"Hans", "Hant", "Jpan"}


def split_sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a text, without the space between them.

    A period does not end a sentence after an initial (J.) or a short number (3.), or before a lowercase letter.
    """
    start = 0
    for end in _SENTENCE_END.finditer(text):
        if _is_end(text, end) and (sentence := text[start : end.end()].strip()):
            yield sentence
            start = end.end()
    if rest := text[start:].strip():
        yield rest


def join_sentences(sentences: Iterable[str], language: str) -> str:
    """Join sentences into one text, with a space between them if the language uses spaces."""
    space = "" if language_script_code(language) in _SCRIPTS_WITHOUT_SPACES else " "
    return space.join(sentence for sentence in sentences if sentence)


def wrap_text(text: str, max_chars: int) -> Iterator[str]:
    """Yield a text in pieces of at most `max_chars` characters, cut at spaces where possible."""
    start = 0
    while start < len(text):
        piece = text[start : start + max_chars + 1]
        end = cut_index(piece, max_chars)
        if stripped := piece[:end].strip():
            yield stripped
        start += end


def cut_index(text: str, max_chars: int) -> int:
    """Return the index at which to cut a text to at most `max_chars` characters.

    It is the last space in the second half of the allowed length. Without one, it never separates a letter from its
    combining marks, unless they fill the whole half.
    """
    if len(text) <= max_chars:
        return len(text)
    space = next((i for i in range(max_chars, max_chars // 2, -1) if text[i].isspace()), None)
    if space is not None:
        return space
    letter = next(
        (i for i in range(max_chars, max_chars // 2, -1) if not unicodedata.category(text[i]).startswith("M")), None
    )
    return letter or max_chars


def _is_end(text: str, end: re.Match[str]) -> bool:
    marks, space = end.groups()
    if not space and end.end() < len(text):
        return any(mark in _FULL_WIDTH_ENDS for mark in marks)
    if marks != ".":
        return True
    before = text[max(0, end.start() - 3) : end.start()]
    return not _INITIAL_OR_NUMBER.search(before) and not text[end.end() : end.end() + 1].islower()
