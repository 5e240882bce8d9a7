from __future__ import annotations

from typing import Annotated, Literal

import pytest
from pydantic import Field

from manyglot.config import Experiment
from manyglot.errors import SettingsError
from manyglot.settings import Settings, documented_fields, parse


class Cat(Settings):
    kind: Literal["cat"] = "cat"
    lives: int = 9


class Dog(Settings):
    kind: Literal["dog"] = "dog"
    tricks: int = 0


class House(Settings):
    rooms: int = 3
    pet: Annotated[Cat | Dog, Field(discriminator="kind")] = Cat()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"room": 3}, "room is not a setting. Did you mean 'rooms'?"),
        ({"pet": {"kind": "cat", "live": 3}}, "pet.live is not a setting. Did you mean 'lives'?"),
        ({"pet": {"kind": "cow"}}, "pet.kind: 'cow' is not known."),
        ({"pet": {"lives": 3}}, "pet needs 'kind'."),
        (
            {"rooms": "many"},
            "rooms: input should be a valid integer, unable to parse string as an integer, got 'many'.",
        ),
    ],
)
def test_a_mistake_is_one_line_that_names_the_setting(values: dict[str, object], message: str) -> None:
    with pytest.raises(SettingsError) as caught:
        parse(House, values)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def test_every_setting_is_documented() -> None:
    def walk(kind: type[Settings]) -> None:
        for name, _, documentation in documented_fields(kind):
            assert documentation, f"{kind.__name__}.{name} has no documentation"
        for field in kind.model_fields.values():
            if isinstance(field.annotation, type) and issubclass(field.annotation, Settings):
                walk(field.annotation)

    walk(Experiment)
