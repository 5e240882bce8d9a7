"""The 13a tokenizer (NIST's mteval-v13a, as in sacreBLEU) for many texts at once.

ASCII punctuation becomes a word of its own, except apostrophes and hyphens. A period or comma does so unless it stands
between digits, and a hyphen only after a digit.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_TEXT_SEPARATOR = " \n "
"""Separates texts that are tokenized together; the rules need a space at both ends of a text."""
_SPACED_PUNCTUATION = {
    mark: f" {chr(mark)} "
    for first, last in ("{~", "[`", "!&", "(+", ":@", "//")
    for mark in range(ord(first), ord(last) + 1)
}
_ENTITIES = (("&quot;", '"'), ("&amp;", "&"), ("&lt;", "<"), ("&gt;", ">"))
_SPLIT_RULES = (
    (re.compile(r"([^0-9])([.,])"), r"\1 \2 "),
    (re.compile(r"([.,])([^0-9])"), r" \1 \2"),
    (re.compile(r"([0-9])-"), r"\1 - "),
)


def tokenize_13a(texts: Sequence[str]) -> list[list[str]]:
    """Split each text into words."""
    if not texts:
        return []
    joined = _TEXT_SEPARATOR.join(map(_join_lines, texts))
    if "&" in joined:
        for entity, mark in _ENTITIES:
            joined = joined.replace(entity, mark)
    joined = f" {joined} ".translate(_SPACED_PUNCTUATION)
    for rule, replacement in _SPLIT_RULES:
        joined = rule.sub(replacement, joined)
    return [line.split() for line in joined.split("\n")]


def _join_lines(text: str) -> str:
    """Remove line breaks; a hyphen before a line break joins a divided word."""
    text = text.rstrip().replace("<skipped>", "")
    return text.replace("-\n", "").replace("\n", " ") if "\n" in text else text
