"""The base of all settings: frozen, typed, documented and strict about unknown keys."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, get_args, get_origin

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from manyglot.config.plain_values import check_plain_values
from manyglot.errors import SettingsError, did_you_mean, shorten

MAX_COUNT = 10**9
"""Upper bound of settings that count updates or sentences."""
MAX_ERROR_CHARS = 400
"""Maximum length of a message about a setting."""
MAX_LISTED_SETTINGS = 3
"""Number of settings that an error message lists as examples."""


class Settings(BaseModel):
    """Base class of all settings. The string under a field is its documentation."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _numbers_are_numbers(cls, values: Any) -> Any:
        """Refuse true, false and text as numbers; pydantic converts `true` to 1 and "1_0" to 10."""
        for name, value in values.items() if isinstance(values, Mapping) else ():
            types = _value_types(cls.model_fields[name].annotation) if name in cls.model_fields else set()
            for number in _values_in(value) if types & {int, float} else ():
                if isinstance(number, bool | str) and type(number) not in types:
                    raise PydanticCustomError(
                        "not_a_number", "should be a number, got {given}", {"given": _short_repr(number), "field": name}
                    )
        return values


S = TypeVar("S", bound=Settings)


@dataclass(frozen=True)
class ChangeableOnResume:
    """Marks a setting, or a section, that may change when a run resumes: `Annotated[int, CHANGEABLE_ON_RESUME]`.

    Mark only settings that do not affect the weights of a step. Unmarked settings must stay the same.
    """

    condition: Callable[[Any], bool] | None = None
    """Predicate on the section that contains the setting; None always allows the change."""

    def allows(self, section: Settings) -> bool:
        """Whether the setting may change, given the section that contains it."""
        return self.condition is None or self.condition(section)


CHANGEABLE_ON_RESUME = ChangeableOnResume()


def is_changeable_on_resume(settings: Settings, name: str) -> bool:
    """Whether the setting of this dotted name, or a section that contains it, may change when a run resumes."""
    section: Any = settings
    for part in name.split("."):
        field = type(section).model_fields.get(part) if isinstance(section, Settings) else None
        if field is None:
            return False
        if any(mark.allows(section) for mark in field.metadata if isinstance(mark, ChangeableOnResume)):
            return True
        section = getattr(section, part)
    return False


def are_equal_settings(saved: Any, current: Any) -> bool:
    """Whether plain values of settings are equal, at any depth. A setting that one side lacks counts as null.

    So a file that was written before a setting existed equals one in which the setting has its default, null.
    """
    if isinstance(saved, Mapping) and isinstance(current, Mapping):
        keys = saved.keys() | current.keys()
        return all(are_equal_settings(saved.get(key), current.get(key)) for key in keys)
    if isinstance(saved, list | tuple) and isinstance(current, list | tuple):
        return len(saved) == len(current) and all(map(are_equal_settings, saved, current))
    return bool(saved == current)


def parse_settings(settings_class: type[S], values: Mapping[str, Any], parent_name: str = "") -> S:
    """Parse plain values into settings. Raise a one-line error with the first invalid setting, or all missing ones.

    `parent_name` is the name of the setting that contains these values, for the message.
    """
    check_plain_values(values)
    try:
        return settings_class.model_validate(values)
    except ValidationError as error:
        errors = [dict(each) for each in error.errors(include_url=False)]
        message = _explain_validation_error(settings_class, errors[0], parent_name)
        if missing := [each for each in errors[1:] if each["type"] == errors[0]["type"] == "missing"]:
            others = [_explain_validation_error(settings_class, each, parent_name).split()[0] for each in missing]
            message = f"{message.rstrip('.')}, and so {'is' if len(others) == 1 else 'are'} {', '.join(others)}."
        raise SettingsError(shorten(message, MAX_ERROR_CHARS)) from None


class DocumentedField(NamedTuple):
    """A setting, as the reference page shows it."""

    name: str
    default: str
    documentation: str
    changeable_on_resume: bool
    """Whether it may always change when a run resumes. If this depends on a condition, `documentation` states it."""


def iter_documented_fields(settings_class: type[Settings]) -> Iterator[DocumentedField]:
    """Yield every field of a section, for the reference page."""
    for name, field in settings_class.model_fields.items():
        default = "required" if field.is_required() else field.get_default(call_default_factory=True)
        if isinstance(default, tuple):
            default = f"[{', '.join(map(str, default))}]"
        changeable = CHANGEABLE_ON_RESUME in field.metadata
        yield DocumentedField(name, str(default), field.description or "", changeable)


def _explain_validation_error(settings_class: type[Settings], error: dict[str, Any], parent_name: str) -> str:
    location: tuple[str | int, ...] = error["loc"]
    if error["type"] == "not_a_number":
        location = (*location, error["ctx"]["field"])
    path = (parent_name, *_without_union_tags(settings_class, location))
    name = ".".join(shorten(str(part)) for part in path if part != "")
    given = _short_repr(error["input"])
    match error["type"]:
        case "extra_forbidden":
            known, wrong = _fields_at(settings_class, location[:-1]), str(location[-1])
            sections = [part for part in known if wrong in _fields_at(settings_class, (*location[:-1], part))]
            hint = f"Did you mean '{sections[0]}.{wrong}'?" if len(sections) == 1 else did_you_mean(wrong, known)
            return f"{name} is not a setting. {hint}"
        case "missing":
            return f"{name} is required but missing."
        case "union_tag_invalid":
            context = error["ctx"]
            tag = context["discriminator"].strip("'")
            known_tags = context["expected_tags"].replace("'", "").split(", ")
            return f"{name}.{tag}: {shorten(context['tag'])!r} is not known. {did_you_mean(context['tag'], known_tags)}"
        case "union_tag_not_found":
            return f"{name} needs '{error['ctx']['discriminator'].strip(chr(39))}'."
        case "not_a_number":
            return f"{name} {error['msg']}."
        case "value_error":
            return f"{name}: {error['ctx']['error']}" if name else str(error["ctx"]["error"])
        case "tuple_type" | "list_type":
            return f"{name} should be a list, such as [a, b], got {given}."
        case "model_type" | "dict_type" | "model_attributes_type":
            known, examples = _fields_at(settings_class, location), ""
            if name and known:
                more = " …" * (len(known) > MAX_LISTED_SETTINGS)
                examples = f" ({', '.join(known[:MAX_LISTED_SETTINGS])}{more})"
            return f"{name} should contain settings{examples}, got {given}."
        case "path_type":
            return f"{name} should be the path of a file or folder, got {given}."
        case _:
            return f"{name}: {_lower_first(error['msg'])}, got {given}."


def _without_union_tags(settings_class: type[Settings], location: tuple[str | int, ...]) -> Iterator[str | int]:
    """Yield the location as the user wrote it, without the tags and class names that pydantic inserts for unions."""
    annotation: Any = settings_class
    for part in location:
        members = _settings_classes_in(annotation)
        tagged = [m for m in members if part in _literal_values(m) or part == m.__name__]
        if isinstance(part, str) and tagged and not any(part in m.model_fields for m in members):
            annotation = tagged[0]
            continue
        yield part
        annotation = _annotation_of(annotation, part)


def _fields_at(settings_class: type[Settings], location: tuple[str | int, ...]) -> list[str]:
    annotation: Any = settings_class
    for part in location:
        tagged = [m for m in _settings_classes_in(annotation) if part in _literal_values(m) or part == m.__name__]
        annotation = tagged[0] if tagged else _annotation_of(annotation, part)
    return [name for member in _settings_classes_in(annotation) for name in member.model_fields]


def _annotation_of(annotation: Any, part: str | int) -> Any:
    if isinstance(part, int):
        return next((a for a in get_args(annotation) if a is not Ellipsis), None)
    for member in _settings_classes_in(annotation):
        if part in member.model_fields:
            return member.model_fields[part].annotation
    return None


def _settings_classes_in(annotation: Any) -> list[type[Settings]]:
    """Return the settings classes that an annotation allows."""
    if isinstance(annotation, type) and issubclass(annotation, Settings):
        return [annotation]
    if get_origin(annotation) is not None:  # a union, a tuple …
        return [m for a in get_args(annotation) for m in _settings_classes_in(a)]
    return []


def _value_types(annotation: Any) -> set[type]:
    """Return the types of the plain values that an annotation allows, inside lists and as values of mappings too."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return {type(value) for value in arguments}
    if origin is not None:  # a union, a tuple, a mapping or an annotated type
        inner = {dict: arguments[1:], Annotated: arguments[:1]}.get(origin, arguments)
        return {each for argument in inner for each in _value_types(argument)}
    return {annotation} if isinstance(annotation, type) else set()


def _values_in(value: Any) -> Iterator[Any]:
    """Yield a value, or the values inside a list or mapping."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if not isinstance(value, list | tuple):
        yield value
        return
    for inner in value:
        yield from _values_in(inner)


def _literal_values(member: type[Settings]) -> tuple[Any, ...]:
    """Return the values of the literal fields of a class, which serve as the tags of a union."""
    return tuple(v for f in member.model_fields.values() for v in get_args(f.annotation) if isinstance(v, str))


def _short_repr(value: Any) -> str:
    try:
        return reprlib.repr(value)
    except ValueError:  # Python refuses to format integers with thousands of digits
        return "a number with thousands of digits"


def _lower_first(text: str) -> str:
    return text[:1].lower() + text[1:]
