"""Check the types of the arguments of public functions, so that a mistake is one line instead of a traceback."""

from __future__ import annotations

import functools
import inspect
import os
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, ParamSpec, TypeVar, Union, get_args, get_origin

from manyglot.errors import SettingsError, did_you_mean

P = ParamSpec("P")
R = TypeVar("R")

_DESCRIPTIONS: Mapping[Any, str] = {
    str: "text",
    int: "a whole number",
    float: "a number",
    bool: "True or False",
    type(None): "None",
    os.PathLike: "a path",
    Path: "a path",
    Callable: "a function",
}


def checks_argument_types(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a public function: raise a SettingsError if an argument is unknown or does not have its annotated type.

    Elements of sequences and dictionaries are checked too. Those of other iterables are not, because that would consume
    them.
    """
    names = [name for name in inspect.signature(function).parameters if name != "self"]
    num_unnamed = len(inspect.signature(function).parameters) - len(names)

    @functools.cache
    def types_by_name() -> dict[str, Any]:
        hints = typing.get_type_hints(function)
        return {name: hints.get(name, Any) for name in names}

    @functools.wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        positional = zip(names, args[num_unnamed:], strict=False)
        check_argument_types(function.__name__, {**dict(positional), **kwargs}, types_by_name())
        return function(*args, **kwargs)

    return checked


def check_argument_types(function_name: str, arguments: Mapping[str, Any], types_by_name: Mapping[str, Any]) -> None:
    """Raise a SettingsError if an argument is not among the known ones or has another type."""
    for name, value in arguments.items():
        if name not in types_by_name:
            raise SettingsError(f"{function_name} has no argument '{name}'. {did_you_mean(name, types_by_name)}")
        if not _has_type(value, types_by_name[name]):
            expected, given = _describe(types_by_name[name]), f"{value!r:.60} ({type(value).__name__})"
            raise SettingsError(f"{function_name}: `{name}` should be {expected}, got {given}.")


def _has_type(value: Any, hint: Any) -> bool:
    """Whether a value has a type. A type that cannot be checked, such as a protocol, accepts every value."""
    origin, args = get_origin(hint), get_args(hint)
    if hint is Any:
        return True
    if origin in (Union, types.UnionType):
        return any(_has_type(value, arg) for arg in args)
    if origin is Literal:
        return any(isinstance(value, type(arg)) for arg in args)  # the function lists the known values
    if hint is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if hint is int:
        return hasattr(value, "__index__") and not isinstance(value, bool)
    kind = origin or hint
    if not isinstance(kind, type) or getattr(kind, "_is_protocol", False):
        return True
    if not isinstance(value, kind):
        return False
    if isinstance(value, Mapping) and len(args) == 2:
        return all(_has_type(key, args[0]) and _has_type(each, args[1]) for key, each in value.items())
    if isinstance(value, Sequence) and issubclass(kind, Sequence) and not isinstance(value, str) and len(args) == 1:
        return all(_has_type(each, args[0]) for each in value)
    return True


def _describe(hint: Any) -> str:
    """Return what a user should give, such as `text or a path`."""
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return " or ".join(dict.fromkeys(map(_describe, args)))
    if origin is Literal:
        return " or ".join(map(repr, args))
    kind = origin or hint
    if kind in _DESCRIPTIONS:
        return _DESCRIPTIONS[kind]
    if isinstance(kind, type) and issubclass(kind, Mapping):
        return "a dictionary"
    if origin is not None and len(args) == 1:
        elements = _describe(args[0])
        return f"a list (of {elements})" if " or " in elements else f"a list of {elements}"
    return getattr(kind, "__name__", str(hint))
