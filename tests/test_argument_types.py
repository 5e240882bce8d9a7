from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import pytest

from manyglot.argument_types import checks_argument_types
from manyglot.errors import SettingsError


@checks_argument_types
def example(
    texts: Iterable[str] = (),
    names: str | Sequence[str | None] = (),
    number: float = 1,
    count: int | None = 1,
    mode: Literal["a", "b"] = "a",
    by_name: Mapping[str, int] = {},
    callback: Callable[[int], object] | None = None,
    anything: Any = None,
) -> list[str]:
    """Return the texts."""
    return list(texts)


def test_arguments_of_the_right_type_are_passed_on() -> None:
    texts: Iterator[str] = iter(["a", "b"])
    assert example(texts, ["x", None], 2, np.int64(3), by_name={"a": 1}, callback=print, anything=3) == ["a", "b"]  # type: ignore[arg-type]
    assert example.__doc__ == "Return the texts."


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"texts": 5}, r"example: `texts` should be a list of text, got 5 \(int\)\."),
        ({"names": ["a", 3]}, r"`names` should be text or a list \(of text or None\), got \['a', 3\]"),
        ({"number": "2"}, "`number` should be a number, got '2'"),
        ({"number": True}, "`number` should be a number, got True"),
        ({"count": 2.5}, "`count` should be a whole number or None, got 2.5"),
        ({"mode": 3}, "`mode` should be 'a' or 'b', got 3"),
        ({"by_name": {"a": "b"}}, "`by_name` should be a dictionary, got "),
        ({"callback": "print"}, "`callback` should be a function or None, got 'print'"),
        ({"txts": []}, r"example has no argument 'txts'\. Did you mean 'texts'\?"),
    ],
)
def test_other_arguments_are_refused_in_one_line(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        example(**arguments)
