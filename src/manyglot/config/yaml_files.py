"""The YAML that manyglot reads and writes: JSON values, without the surprising and dangerous parts of YAML.

Types follow the core schema of YAML 1.2: `no`, `1:30`, `1_000` and `2024-01-01` are text, `1e-4` is a number, `010` is
ten. Anchors, aliases, merge keys, tags, directives, duplicate keys and several documents are errors. Size, depth, the
number of values and their length are limited, so reading takes little time and memory whatever the text.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn

import yaml

from manyglot.config import plain_values
from manyglot.errors import FolderError, SettingsError
from manyglot.files import MAX_ERROR_CHARS, read_text

MAX_YAML_BYTES = 2**20
"""Size limit of a YAML file."""
_CONSTANTS = {"": None, "~": None, ".nan": math.nan, ".NaN": math.nan, ".NAN": math.nan}
_CONSTANTS |= {text: value for word, value in (("null", None), ("true", True), ("false", False))
               for text in (word, word.capitalize(), word.upper())}  # fmt: skip
_CONSTANTS |= {sign + word: float(sign + "inf") for sign in ("", "+", "-") for word in (".inf", ".Inf", ".INF")}
_INTEGER = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_LINE_BREAK = re.compile("[\n\r\x85\u2028\u2029]")


def parse_yaml(text: str) -> Any:
    """Parse a document into None, booleans, numbers, strings, lists and dictionaries with strings as keys.

    Raise a `yaml.YAMLError` with a one-line message for anything else, and if a limit is exceeded.
    """
    if len(text) > MAX_YAML_BYTES:
        raise yaml.YAMLError(f"it has more than {MAX_YAML_BYTES:,} characters")
    try:
        return _DocumentBuilder(text).build()
    except yaml.YAMLError as error:
        raise yaml.YAMLError(_describe(error)) from None
    except (ValueError, OverflowError):  # PyYAML converts the escape \UFFFFFFFF without a check
        raise yaml.YAMLError("an escape sequence in quotes is not a character") from None


def read_yaml_mapping(path: Path) -> dict[str, Any]:
    """Read a YAML file that holds a mapping; raise a one-line SettingsError for anything else."""
    if not os.path.exists(path):  # unlike Path.exists, this raises no error for a name that is too long
        raise SettingsError(f"There is no file {path}.")
    if path.is_dir():
        raise SettingsError(f"{path} is a folder. Give a YAML file.")
    try:
        values = parse_yaml(read_text(path, MAX_YAML_BYTES))
    except FolderError as error:
        raise SettingsError(str(error)) from None
    except yaml.YAMLError as error:
        raise SettingsError(f"{path} is not valid YAML: {error}.") from None
    if values is None:
        raise SettingsError(f"{path} is empty.")
    if not isinstance(values, dict):
        raise SettingsError(f"{path} should contain settings such as `seed: 1`, got {_type_name(values)}.")
    return values


def format_yaml(values: Mapping[str, Any]) -> str:
    """Format a mapping of plain values as YAML that `parse_yaml` reads back exactly.

    Text that other YAML readers take for a number, a date or a boolean is quoted. Raise a SettingsError if a value
    exceeds a limit.
    """
    plain_values.check_plain_values(values)
    return yaml.dump(dict(values), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=math.inf)


class _EventReader(yaml.SafeLoader):
    """PyYAML's scanner and parser, without the parts of YAML that settings do not need."""

    def fetch_directive(self) -> NoReturn:
        self._refuse("directives (%) are not allowed")

    def fetch_alias(self) -> NoReturn:
        self._refuse("aliases are not allowed; put text that begins with * in quotes")

    def fetch_anchor(self) -> NoReturn:
        self._refuse("anchors are not allowed; put text that begins with & in quotes")

    def fetch_tag(self) -> NoReturn:
        self._refuse("tags are not allowed; put text that begins with ! in quotes")

    def fetch_flow_collection_start(self, TokenClass: type[yaml.Token]) -> None:
        """Refuse deep nesting at once; the scanner reads on for 1,024 brackets before the first event."""
        if self.flow_level > plain_values.MAX_DEPTH:
            self._refuse(f"the nesting is deeper than {plain_values.MAX_DEPTH} levels")
        super().fetch_flow_collection_start(TokenClass)

    def _refuse(self, problem: str) -> NoReturn:
        raise yaml.MarkedYAMLError(problem=problem, problem_mark=self.get_mark())


class _DocumentBuilder:
    """Builds the value of a document from its events, within the limits."""

    def __init__(self, text: str) -> None:
        self.events: Iterator[yaml.Event] = yaml.parse(text, _EventReader)
        self.num_values = 0

    def build(self) -> Any:
        """Return the value of the only document; None without a document."""
        next(self.events)  # the start of the stream
        if isinstance(next(self.events), yaml.StreamEndEvent):
            return None
        value = self._build_value(next(self.events), depth=0)
        next(self.events)  # the end of the document
        event = next(self.events)
        if not isinstance(event, yaml.StreamEndEvent):
            _refuse("a second document begins; give one document", event)
        return value

    def _build_value(self, event: yaml.Event, depth: int) -> Any:
        self.num_values += 1
        if self.num_values > plain_values.MAX_VALUES:
            _refuse(f"there are more than {plain_values.MAX_VALUES:,} values", event)
        if depth > plain_values.MAX_DEPTH:
            _refuse(f"the nesting is deeper than {plain_values.MAX_DEPTH} levels", event)
        if isinstance(event, yaml.MappingStartEvent):
            return self._build_mapping(depth)
        if isinstance(event, yaml.SequenceStartEvent):
            return [self._build_value(inner, depth + 1) for inner in self._until(yaml.SequenceEndEvent)]
        assert isinstance(event, yaml.ScalarEvent)
        problem = plain_values.find_problem(event.value)
        if problem:
            _refuse(problem, event)
        return event.value if event.style else _resolve_plain_scalar(event)

    def _build_mapping(self, depth: int) -> dict[str, Any]:
        mapping: dict[str, Any] = {}
        for event in self._until(yaml.MappingEndEvent):
            if isinstance(event, yaml.ScalarEvent) and event.value == "<<" and not event.style:
                _refuse("merge keys (<<) are not allowed", event)
            key = self._build_value(event, depth + 1)
            if not isinstance(key, str):
                _refuse(f"a key should be text, got {_type_name(key)}; put it in quotes", event)
            if key in mapping:
                _refuse(f"{key[: plain_values.MAX_NUMBER_CHARS]!r} is given twice", event)
            mapping[key] = self._build_value(next(self.events), depth + 1)
        return mapping

    def _until(self, end: type[yaml.Event]) -> Iterator[yaml.Event]:
        """Yield the first event of each value of a collection."""
        while not isinstance(event := next(self.events), end):
            yield event


class _Dumper(yaml.SafeDumper):
    """Writes no aliases, and quotes text that the core schema or YAML 1.1 resolves to another type."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def represent_str(self, data: str) -> yaml.ScalarNode:
        """Escape line breaks; PyYAML reads some of them back as others."""
        return self.represent_scalar("tag:yaml.org,2002:str", data, style='"' if _LINE_BREAK.search(data) else None)


_Dumper.add_representer(str, _Dumper.represent_str)
for _tag, _pattern in (("int", _INTEGER), ("float", _FLOAT)):
    _Dumper.add_implicit_resolver(
        f"tag:yaml.org,2002:{_tag}", re.compile(f"(?:{_pattern.pattern})$"), [*"+-.0123456789"]
    )


def _resolve_plain_scalar(event: yaml.ScalarEvent) -> Any:
    """Return the value of text without quotes in the core schema of YAML 1.2."""
    text = event.value
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    is_integer = _INTEGER.fullmatch(text)
    if not is_integer and not _FLOAT.fullmatch(text):
        return text
    if len(text) > plain_values.MAX_NUMBER_CHARS:
        _refuse(f"a number has more than {plain_values.MAX_NUMBER_CHARS} characters", event)
    if is_integer:
        return int(text, {"0o": 8, "0x": 16}.get(text[:2], 10))
    if math.isinf(float(text)):
        _refuse(f"the number {text} is too large", event)
    return float(text)


def _refuse(problem: str, event: yaml.Event) -> NoReturn:
    mark: Any = event.start_mark
    raise yaml.MarkedYAMLError(problem=problem, problem_mark=mark)


def _describe(error: yaml.YAMLError) -> str:
    """Return the place and the problem in one line."""
    if not isinstance(error, yaml.MarkedYAMLError) or error.problem_mark is None:
        return " ".join(str(error).split())[:MAX_ERROR_CHARS]
    place = f"line {error.problem_mark.line + 1}, column {error.problem_mark.column + 1}"
    context = f"{error.context}, " if error.context else ""
    return f"{place}: {context}{error.problem}"[:MAX_ERROR_CHARS]


def _type_name(value: Any) -> str:
    names = {list: "a list", dict: "a mapping", str: "text", bool: "true or false", type(None): "nothing"}
    return names.get(type(value), "a number")
