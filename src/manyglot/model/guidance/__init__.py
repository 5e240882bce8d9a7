"""Guidance methods: the ways to tell a model its target language, one file each.

To add a method, write a file with its settings and its module, and add its class to `METHODS`.
"""

from __future__ import annotations

import reprlib
from collections.abc import Iterable
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, SerializeAsAny

from manyglot.config.base_settings import parse_settings
from manyglot.errors import SettingsError, did_you_mean, shorten
from manyglot.model.guidance.adapter import Adapter
from manyglot.model.guidance.base import CombinedGuidance, GuidanceMethod, MethodSettings, ModelDimensions
from manyglot.model.guidance.laa import LAA
from manyglot.model.guidance.laln import LALN
from manyglot.model.guidance.lalt import LALT
from manyglot.model.guidance.lee import LEE
from manyglot.model.guidance.random_laa import RandomLAA
from manyglot.model.guidance.token import LanguageToken

METHODS: tuple[type[GuidanceMethod], ...] = (LanguageToken, LEE, LAA, Adapter, LALN, LALT, RandomLAA)


def method_name(method: type[GuidanceMethod]) -> str:
    """Return the name of a method in the settings."""
    return str(method.settings_type.model_fields["method"].default)


def parse_method_settings(values: Any) -> MethodSettings:
    """Parse one entry of the `guidance` list."""
    if isinstance(values, MethodSettings):
        return values
    if not isinstance(values, dict) or not isinstance(values.get("method"), str):
        raise SettingsError(
            f"guidance: each entry needs a method, such as {{method: token}}; got {reprlib.repr(values)}."
        )
    name = values["method"]
    return parse_settings(_method_class(name).settings_type, values, parent_name=f"guidance.{name}")


def check_compatible_methods(methods: tuple[MethodSettings, ...]) -> tuple[MethodSettings, ...]:
    """Raise a SettingsError if a method is listed twice or two methods cannot be combined."""
    names = [settings.method for settings in methods]
    classes = {name: _method_class(name) for name in names}
    for name in classes:
        if names.count(name) > 1:
            raise SettingsError(f"guidance: {name} is listed twice. List each method once.")
        for other, reason in classes[name].incompatible_methods.items():
            if other in classes:
                raise SettingsError(f"guidance: {name} and {other} cannot be combined: {reason}. Choose one of them.")
    return methods


def check_target_language_conveyed(methods: tuple[MethodSettings, ...]) -> tuple[MethodSettings, ...]:
    """Raise a SettingsError if no method of the list tells the model its target language."""
    names = [settings.method for settings in methods]
    classes = {name: _method_class(name) for name in names}
    if not any(method.conveys_target_language for method in classes.values()):
        incompatible = {other for method in classes.values() for other in method.incompatible_methods}
        alternatives = ", ".join(
            name for m in METHODS if m.conveys_target_language and (name := method_name(m)) not in incompatible
        )
        subject = f"{' and '.join(names)} alone" if names else "an empty list"
        raise SettingsError(
            f"guidance: {subject} does not tell the model its target language. Add one of {alternatives}."
        )
    return methods


def _require_list(methods: Any) -> Any:
    if not isinstance(methods, list | tuple):
        raise SettingsError(
            f"guidance should be a list of methods, such as [{{method: laa}}, {{method: lee}}]; "
            f"got {reprlib.repr(methods)}."
        )
    return methods


AnyMethodSettings = Annotated[SerializeAsAny[MethodSettings], BeforeValidator(parse_method_settings)]
"""The settings of one method, of the type that its name selects."""
GuidanceList = Annotated[
    tuple[AnyMethodSettings, ...], BeforeValidator(_require_list), AfterValidator(check_compatible_methods)
]
"""The settings of compatible methods; empty for a model whose guidance was folded into its weights."""


def build_guidance(settings: Iterable[MethodSettings], dimensions: ModelDimensions) -> CombinedGuidance:
    """Build the modules of a list of methods."""
    methods = {}
    for each in settings:
        each.check_width(dimensions.width)
        methods[each.method] = _method_class(each.method)(each, dimensions)
    return CombinedGuidance(methods)


def _method_class(name: str) -> type[GuidanceMethod]:
    known = {method_name(method): method for method in METHODS}
    if name not in known:
        raise SettingsError(f"guidance.method: '{shorten(name)}' is not known. {did_you_mean(name.lower(), known)}")
    return known[name]
