"""The tokenizer 13a (of NIST's mteval-v13a, as sacreBLEU has it) for many texts at once.

Every mark of ASCII is a word of its own, except apostrophes and hyphens; a full stop or comma is, unless it stands
between digits; a hyphen is after a digit.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

BETWEEN = " \n "
"""Stands between two texts: a space on either side, as the rules want it at the ends of a text."""
_MARKS = {
    mark: f" {chr(mark)} "
    for first, last in ("{~", "[`", "!&", "(+", ":@", "//")
    for mark in range(ord(first), ord(last) + 1)
}
_ENTITIES = (("&quot;", '"'), ("&amp;", "&"), ("&lt;", "<"), ("&gt;", ">"))
_RULES = (
    (re.compile(r"([^0-9])([.,])"), r"\1 \2 "),
    (re.compile(r"([.,])([^0-9])"), r" \1 \2"),
    (re.compile(r"([0-9])-"), r"\1 - "),
)


def words_13a(texts: Sequence[str]) -> list[list[str]]:
    """The words of each text."""
    if not texts:
        return []
    joined = BETWEEN.join(map(_one_line, texts))
    if "&" in joined:
        for entity, mark in _ENTITIES:
            joined = joined.replace(entity, mark)
    joined = f" {joined} ".translate(_MARKS)
    for rule, replacement in _RULES:
        joined = rule.sub(replacement, joined)
    return [line.split() for line in joined.split("\n")]


def _one_line(text: str) -> str:
    """A text without line breaks; a hyphen before one is of a divided word."""
    text = text.rstrip().replace("<skipped>", "")
    return text.replace("-\n", "").replace("\n", " ") if "\n" in text else text
