from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from manyglot.config import plain_values
from manyglot.config.plain_values import MAX_TEXT_CHARS
from manyglot.config.yaml_files import MAX_YAML_BYTES, format_yaml, parse_yaml, read_yaml_mapping
from manyglot.errors import SettingsError

AMBIGUOUS = (
    "no yes on off y null ~ true = << 1:30 2024-01-01 2024-13-45 010 08 0o17 0x10 1e3 1_000 +1 . .inf .nan - ? !"
)
MULTIPLE_LINES = [
    "",
    " ",
    "\n",
    "a\n",
    "\na",
    "a\n\n b\n",
    " a\nb",
    "a\r\nb",
    "a\u2028b\x85",
    "#",
    "a: b",
    "a #b",
    "---",
]
CONTROLS = ["\x01\x1b\x7f", "\t", "a\tb", "\ufeff", "\x85", "\U0010ffff", "\ufffe"]

TYPES = {
    "no": "no",
    "on": "on",
    "NO": "NO",
    "True": True,
    "NULL": None,
    "": None,
    "~": None,
    "1:30": "1:30",
    "2024-01-01": "2024-01-01",
    "2024-13-45": "2024-13-45",
    "1_000": "1_000",
    "0b11": "0b11",
    "=": "=",
    "010": 10,
    "0o17": 15,
    "0x1F": 31,
    "-7": -7,
    "1e-4": 0.0001,
    "1e3": 1000.0,
    ".5": 0.5,
    "-.inf": -math.inf,
    "1.2.3": "1.2.3",
    "[a, {b: no}]": ["a", {"b": "no"}],
    "'1'": "1",
}

HOSTILE = {
    "anchor": ("a: &x 1", "anchors are not allowed"),
    "alias": ("a: *x", "aliases are not allowed"),
    "alias bomb": ("a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]", "line 1, column 4: anchors"),
    "merge key": ("<<: {a: 1}", "merge keys (<<) are not allowed"),
    "merge bomb": ("a: &a {k: 1}\nb: {<<: [*a, *a]}", "anchors are not allowed"),
    "tag": ("seed: !!int x", "tags are not allowed"),
    "python tag": ("!!python/object/apply:os.system [ls]", "tags are not allowed"),
    "tag of a document": ("--- !x\na: 1", "tags are not allowed"),
    "directive": ("%YAML 1.1\n---\na: 1", "directives (%) are not allowed"),
    "unknown directive": ("%X y\n---\na: 1", "directives (%) are not allowed"),
    "two documents": ("a: 1\n--- \nb: 2", "line 2, column 1: a second document"),
    "key given twice": ("a: 1\nb:\n  c: 1\n  c: 2", "line 4, column 3: 'c' is given twice"),
    "number as a key": ("1: 2", "a key should be text, got a number"),
    "list as a key": ("? [a]\n: 2", "a key should be text, got a list"),
    "large integer": ("seed: " + "9" * 5000, "more than"),
    "large hexadecimal": ("seed: 0x" + "f" * 200, "a number has more than 100 characters"),
    "large float": ("seed: 1e999", "the number 1e999 is too large"),
    "open brackets": ("[" * 5000, "the nesting is deeper than 50 levels"),
    "open braces": ("{a: " * 5000, "the nesting is deeper than 50 levels"),
    "dashes": ("- " * 5000, "the nesting is deeper than 50 levels"),
    "question marks": ("? " * 5000, "the nesting is deeper than 50 levels"),
    "indentation": ("\n".join(" " * i + "a:" for i in range(100)), "the nesting is deeper than 50 levels"),
    "long text": ("a: " + "x" * (MAX_TEXT_CHARS + 1), "a value has more than 4,096 characters"),
    "long key": ("x" * 900 + ": 1\n" + "x" * 900 + ": 2", "is given twice"),
    "long quoted key": (f"'{'x' * 5000}': 1", "line 1, column 1"),
    "much text": ("#" * (MAX_YAML_BYTES + 1), "it has more than 1,048,576 characters"),
    "NUL": ("a: \0", "special characters are not allowed"),
    "escaped NUL": ('a: "\\0"', "a text has a NUL character"),
    "surrogate": ("a: \ud800", "special characters are not allowed"),
    "escaped surrogate": ('a: "\\ud800"', "half of a surrogate pair"),
    "escape": ("a: \x1b[2J", "special characters are not allowed"),
    "impossible character": ('a: "\\UFFFFFFFF"', "an escape sequence"),
    "unfinished list": ("a: [1", "line 1, column 6"),
    "unfinished text": ("a: '", "line 1, column 5"),
    "tabs": ("a:\n\tb: 1", "line 2, column 1"),
}


@pytest.mark.parametrize("text", TYPES)
def test_types_follow_the_core_schema(text: str) -> None:
    value = parse_yaml(text)
    assert value == TYPES[text]
    assert type(value) is type(TYPES[text])


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_yaml_is_a_short_error(name: str, tmp_path: Path) -> None:
    text, message = HOSTILE[name]
    with pytest.raises(yaml.YAMLError) as caught:
        parse_yaml(text)
    assert message in str(caught.value)
    path = tmp_path / "x.yaml"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    with pytest.raises(SettingsError) as error:
        read_yaml_mapping(path)
    assert len(str(error.value)) <= 300 + len(f"{path} is not valid YAML: .")


def test_the_number_of_values_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain_values, "MAX_VALUES", 10)
    assert parse_yaml("{a: [1, 2, 3], b: {c: 1}}")
    with pytest.raises(yaml.YAMLError, match="more than 10 values"):
        parse_yaml("{a: [1, 2, 3], b: {c: 1}, d: 1}")
    with pytest.raises(SettingsError, match="more than 10 values"):
        format_yaml({"a": [1, 2, 3], "b": {"c": 1}, "d": 1})


def test_only_regular_files_are_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path, message in {
        tmp_path / "pipe": "is not a file",
        Path("/dev/zero"): "is not a file",
        tmp_path: "is a folder. Give a YAML file",
        tmp_path / "missing": "There is no file",
        tmp_path / ("x" * 300): "There is no file",
        Path("a\0b"): "There is no file",
    }.items():
        with pytest.raises(SettingsError, match=message):
            read_yaml_mapping(path)


TEXT = st.sampled_from([*AMBIGUOUS.split(), *MULTIPLE_LINES, *CONTROLS]) | st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0")
)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(10**98), 10**98)
    | st.floats(allow_nan=False)
    | TEXT
    | st.text("0123.e-+_:x")
)
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner), max_leaves=8)


@given(st.dictionaries(TEXT, VALUES))
@settings(max_examples=25, deadline=None)
def test_what_is_formatted_is_read_back(values: dict[str, Any]) -> None:
    text = format_yaml(values)
    assert repr(parse_yaml(text)) == repr(values)


@given(st.text("ab019 \n\t:-?[]{},&*!|>'\"%@`#~<=.\\xuU_/\r\x85\u2028\ufeff\0é😀", max_size=40))
@settings(max_examples=200, deadline=None)
def test_any_text_is_a_value_or_a_short_error(text: str) -> None:
    try:
        value = parse_yaml(text)
    except yaml.YAMLError as error:
        message = str(error)
    else:
        message = ""
        assert repr(parse_yaml(format_yaml({"a": value}))) == repr({"a": value})
    assert "\n" not in message
    assert len(message) <= 300


def test_text_that_other_readers_take_for_another_type_is_quoted() -> None:
    values = {text: text for text in [*AMBIGUOUS.split(), *MULTIPLE_LINES]}
    assert yaml.safe_load(format_yaml(values)) == values


@pytest.mark.parametrize(
    "value", ["\0", "\ud800", "x" * 5000, 10**100, {"\0": 1}, {1: 2}], ids=lambda value: str(value)[:9]
)
def test_what_could_not_be_read_back_is_not_formatted(value: Any) -> None:
    with pytest.raises(SettingsError) as caught:
        format_yaml({"a": value})
    assert len(str(caught.value)) < 200


def test_a_value_that_contains_itself_is_not_formatted() -> None:
    values: dict[str, Any] = {}
    values["a"] = values
    with pytest.raises(SettingsError, match="deeper than 50"):
        format_yaml(values)
