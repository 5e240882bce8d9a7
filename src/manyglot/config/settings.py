"""What every stage's settings have in common: frozen, typed, documented, and strict about unknown keys."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar, get_args, get_origin

from pydantic import BaseModel, ConfigDict, ValidationError

from manyglot.errors import SettingsError, suggest

NAMED = 3
"""Settings that a message names."""


class Settings(BaseModel):
    """Base of all settings; the string under a field is its documentation."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False)


S = TypeVar("S", bound=Settings)


@dataclass(frozen=True)
class Resumable:
    """Marks a setting, or a whole section, that may change when a run resumes: `Annotated[int, RESUMABLE]`.

    A setting is resumable if it does not decide the weights of a step. Whatever is not marked stays as it was.
    """

    when: Callable[[Any], bool] | None = None
    """Decides by the settings that hold the marked one; None always allows the change."""

    def allows(self, holder: Settings) -> bool:
        """Whether the setting may change beside the others of its section."""
        return self.when is None or self.when(holder)


RESUMABLE = Resumable()


def is_resumable(settings: Settings, name: str) -> bool:
    """Whether the setting of a dotted name, or a section that holds it, may change when a run resumes."""
    holder: Any = settings
    for part in name.split("."):
        field = type(holder).model_fields.get(part) if isinstance(holder, Settings) else None
        if field is None:
            return False
        if any(mark.allows(holder) for mark in field.metadata if isinstance(mark, Resumable)):
            return True
        holder = getattr(holder, part)
    return False


def parse(kind: type[S], values: Mapping[str, Any], where: str = "") -> S:
    """Read plain values into settings; a mistake becomes one line that names the setting.

    `where` is the name of the setting that holds these values, for the message.
    """
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise SettingsError(_explain(kind, dict(first), where)) from None


class DocumentedField(NamedTuple):
    """A setting as the reference page shows it."""

    name: str
    default: str
    documentation: str
    resumable: bool
    """Whether it may change when a run resumes, in some cases at least."""


def documented_fields(kind: type[Settings]) -> Iterator[DocumentedField]:
    """Yield every field of a section, for the reference page."""
    for name, field in kind.model_fields.items():
        default = "required" if field.is_required() else field.get_default(call_default_factory=True)
        if isinstance(default, tuple):
            default = f"[{', '.join(map(str, default))}]"
        resumable = any(isinstance(mark, Resumable) for mark in field.metadata)
        yield DocumentedField(name, str(default), field.description or "", resumable)


def _explain(kind: type[Settings], error: dict[str, Any], where: str) -> str:
    location: tuple[str | int, ...] = error["loc"]
    name = ".".join(str(part) for part in (where, *_spoken(kind, location)) if part != "")
    given = _shown(error["input"])
    match error["type"]:
        case "extra_forbidden":
            known, wrong = _fields_at(kind, location[:-1]), str(location[-1])
            below = [part for part in known if wrong in _fields_at(kind, (*location[:-1], part))]
            hint = f"Did you mean '{below[0]}.{wrong}'?" if len(below) == 1 else suggest(wrong, known)
            return f"{name} is not a setting. {hint}"
        case "missing":
            return f"{name} is required and not given."
        case "union_tag_invalid":
            context = error["ctx"]
            tag = context["discriminator"].strip("'")
            known_tags = context["expected_tags"].replace("'", "").split(", ")
            return f"{name}.{tag}: {context['tag']!r} is not known. {suggest(context['tag'], known_tags)}"
        case "union_tag_not_found":
            return f"{name} needs '{error['ctx']['discriminator'].strip(chr(39))}'."
        case "value_error":
            return f"{name}: {error['ctx']['error']}" if name else str(error["ctx"]["error"])
        case "tuple_type" | "list_type":
            return f"{name} should be a list, such as [a, b], got {given}."
        case "model_type" | "dict_type" | "model_attributes_type":
            known = _fields_at(kind, location)
            some = f" ({', '.join(known[:NAMED])}{' …' * (len(known) > NAMED)})" if name and known else ""
            return f"{name} should hold settings{some}, got {given}."
        case "path_type":
            return f"{name} should be a file or folder, got {given}."
        case _:
            return f"{name}: {_lower_first(error['msg'])}, got {given}."


def _spoken(kind: type[Settings], location: tuple[str | int, ...]) -> Iterator[str | int]:
    """The location as the user wrote it: pydantic also puts the tag of a union into the path."""
    annotation: Any = kind
    for part in location:
        members = _members(annotation)
        tagged = [m for m in members if part in _tags(m)]
        if isinstance(part, str) and tagged and not any(part in m.model_fields for m in members):
            annotation = tagged[0]
            continue
        yield part
        annotation = _step(annotation, part)


def _fields_at(kind: type[Settings], location: tuple[str | int, ...]) -> list[str]:
    annotation: Any = kind
    for part in location:
        tagged = [m for m in _members(annotation) if part in _tags(m)]
        annotation = tagged[0] if tagged else _step(annotation, part)
    return [name for member in _members(annotation) for name in member.model_fields]


def _step(annotation: Any, part: str | int) -> Any:
    if isinstance(part, int):
        return next((a for a in get_args(annotation) if a is not Ellipsis), None)
    for member in _members(annotation):
        if part in member.model_fields:
            return member.model_fields[part].annotation
    return None


def _members(annotation: Any) -> list[type[Settings]]:
    """The settings classes an annotation allows."""
    if isinstance(annotation, type) and issubclass(annotation, Settings):
        return [annotation]
    if get_origin(annotation) is not None:  # a union, a tuple …
        return [m for a in get_args(annotation) for m in _members(a)]
    return []


def _tags(member: type[Settings]) -> tuple[Any, ...]:
    """The values of a class's literal fields: the tags by which a union is told apart."""
    return tuple(v for f in member.model_fields.values() for v in get_args(f.annotation) if isinstance(v, str))


def _shown(value: Any) -> str:
    try:
        return reprlib.repr(value)
    except ValueError:  # Python writes no number of many thousand digits
        return "a number of very many digits"


def _lower_first(text: str) -> str:
    return text[:1].lower() + text[1:]
