"""Ways to tell a model its target language, one file each.

A new method is a file with its settings and its module, and its name in `METHODS`.
"""

from __future__ import annotations

import reprlib
from collections.abc import Iterable
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, SerializeAsAny

from manyglot.config.settings import parse
from manyglot.errors import SettingsError, suggest
from manyglot.model.guidance.adapter import Adapter
from manyglot.model.guidance.base import Combined, Dimensions, Method, MethodSettings
from manyglot.model.guidance.laa import LAA
from manyglot.model.guidance.laln import LALN
from manyglot.model.guidance.lalt import LALT
from manyglot.model.guidance.lee import LEE
from manyglot.model.guidance.random_laa import RandomLAA
from manyglot.model.guidance.token import Token

METHODS: tuple[type[Method], ...] = (Token, LEE, LAA, Adapter, LALN, LALT, RandomLAA)


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
    name = values["method"]
    return parse(_by_name(name).settings_type, values, where=f"guidance.{name}")


def check_together(methods: tuple[MethodSettings, ...]) -> tuple[MethodSettings, ...]:
    """Refuse a list of methods that makes no sense."""
    names = [each.method for each in methods]
    kinds = {name: _by_name(name) for name in names}
    for name in kinds:
        if names.count(name) > 1:
            raise SettingsError(f"guidance: {name} is given twice. Each method can be given once.")
        for other, reason in kinds[name].excludes.items():
            if other in kinds:
                raise SettingsError(f"guidance: {name} and {other} do not go together: {reason}. Take one of them.")
    return methods


def check_tells_target(methods: tuple[MethodSettings, ...]) -> tuple[MethodSettings, ...]:
    """Refuse a list of methods by which no model could know what to write."""
    names = [each.method for each in methods]
    kinds = {name: _by_name(name) for name in names}
    if not any(kind.tells_target for kind in kinds.values()):
        excluded = {other for kind in kinds.values() for other in kind.excludes}
        telling = ", ".join(name for m in METHODS if m.tells_target and (name := method_name(m)) not in excluded)
        given = f"{' and '.join(names)} alone does not tell" if names else "an empty list does not tell"
        raise SettingsError(f"guidance: {given} the model its target language. Add one of {telling}.")
    return methods


def _is_list(methods: Any) -> Any:
    if not isinstance(methods, list | tuple):
        raise SettingsError(
            f"guidance should be a list of methods, such as [{{method: laa}}, {{method: lee}}]; "
            f"got {reprlib.repr(methods)}."
        )
    return methods


GuidanceSettings = Annotated[SerializeAsAny[MethodSettings], BeforeValidator(read_method)]
"""One method."""
GuidanceList = Annotated[tuple[GuidanceSettings, ...], BeforeValidator(_is_list), AfterValidator(check_together)]
"""Methods that go together; none in a model whose guidance was folded away."""


def build_guidance(settings: Iterable[MethodSettings], dimensions: Dimensions) -> Combined:
    """Make the modules of a list of methods."""
    return Combined({each.method: _by_name(each.method)(each, dimensions) for each in settings})


def _by_name(name: str) -> type[Method]:
    known = {method_name(method): method for method in METHODS}
    if name not in known:
        raise SettingsError(f"guidance.method: '{name}' is not known. {suggest(name.lower(), known)}")
    return known[name]
