"""Limits on the plain values of settings: strings, numbers, lists and mappings, from a YAML file or from Python."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from manyglot.errors import SettingsError

MAX_DEPTH = 50
"""How deeply lists and mappings may be nested."""
MAX_VALUES = 100_000
"""Maximum number of values, keys included."""
MAX_TEXT_CHARS, MAX_NUMBER_CHARS = 4096, 100
"""Maximum length of a text and of a number."""
_NUL_OR_SURROGATE = re.compile("[\0\ud800-\udfff]")


def check_plain_values(values: Any) -> None:
    """Raise a SettingsError if nested values exceed a limit of this module, or no YAML file could hold them."""
    for num_values, (value, depth) in enumerate(_iter_values(values), start=1):
        problem = find_problem(value)
        if num_values > MAX_VALUES:
            problem = f"there are more than {MAX_VALUES:,} values"
        elif depth > MAX_DEPTH:
            problem = f"the nesting is deeper than {MAX_DEPTH} levels"
        if problem:
            raise SettingsError(f"The settings cannot be used: {problem}.")


def find_problem(value: Any) -> str | None:
    """Return why a value is not allowed, or None. The values that it contains are not checked."""
    if isinstance(value, str):
        if len(value) > MAX_TEXT_CHARS:
            return f"a text has more than {MAX_TEXT_CHARS:,} characters"
        if _NUL_OR_SURROGATE.search(value):
            return "a text has a NUL character or half of a surrogate pair"
    elif isinstance(value, int):
        if abs(value) >= 10 ** (MAX_NUMBER_CHARS - 1):
            return f"a number has more than {MAX_NUMBER_CHARS} characters"
    elif isinstance(value, Mapping) and not all(isinstance(key, str) for key in value):
        return "a key is not text"
    return None


def _iter_values(value: Any, depth: int = 0) -> Iterator[tuple[Any, int]]:
    yield value, depth
    if depth <= MAX_DEPTH and isinstance(value, Mapping):
        for key, inner in value.items():
            yield key, depth
            yield from _iter_values(inner, depth + 1)
    elif depth <= MAX_DEPTH and isinstance(value, list | tuple):
        for inner in value:
            yield from _iter_values(inner, depth + 1)
