"""Ways to tell a model its target language, one file each.

A new method is a file with its settings and its module, and its name in `METHODS`.
"""

from __future__ import annotations

import reprlib
from collections.abc import Iterable
from typing import Annotated, Any

from pydantic import BeforeValidator, SerializeAsAny

from manyglot.errors import SettingsError, suggest
from manyglot.model.guidance.base import Combined, Dimensions, Method, MethodSettings
from manyglot.model.guidance.token import Token
from manyglot.settings import parse

METHODS: tuple[type[Method], ...] = (Token,)


def method_name(method: type[Method]) -> str:
    """The name by which the settings know a method."""
    return str(method.settings_type.model_fields["method"].default)


def read_method(values: Any) -> MethodSettings:
    """Read one entry of the `guidance` list."""
    if isinstance(values, MethodSettings):
        return values
    if not isinstance(values, dict) or not isinstance(values.get("method"), str):
        raise SettingsError(
            f"guidance: each entry needs a method, such as {{method: token}}; got {reprlib.repr(values)}."
        )
    return parse(_by_name(values["method"]).settings_type, values, where="guidance")


GuidanceSettings = Annotated[SerializeAsAny[MethodSettings], BeforeValidator(read_method)]


def build_guidance(settings: Iterable[MethodSettings], dimensions: Dimensions) -> Combined:
    """Make the modules of a list of methods."""
    return Combined(_by_name(each.method)(each, dimensions) for each in settings)


def _by_name(name: str) -> type[Method]:
    known = {method_name(method): method for method in METHODS}
    if name not in known:
        raise SettingsError(f"guidance.method: '{name}' is not known. {suggest(str(name), known)}")
    return known[name]
