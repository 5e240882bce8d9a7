from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, get_args

import pytest
from pydantic import Field

from manyglot.config.base_settings import Settings, iter_documented_fields, parse_settings
from manyglot.config.experiment import Experiment, read_experiment
from manyglot.corpus.readers import CorpusSettings
from manyglot.errors import SettingsError
from manyglot.model.guidance import METHODS


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
        parse_settings(House, values)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def test_every_setting_is_documented() -> None:
    kinds = [Experiment, *(m.settings_type for m in METHODS), *get_args(get_args(CorpusSettings)[0])]
    kinds += [f.annotation for f in Experiment.model_fields.values() if isinstance(f.annotation, type)]
    for kind in kinds:
        if issubclass(kind, Settings):
            for name, _, documentation, _ in iter_documented_fields(kind):
                assert documentation, f"{kind.__name__}.{name} has no documentation"


@pytest.mark.parametrize(
    "override",
    [
        "seed=-1",
        "training.adam_betas=[1.5, 0.9]",
        "corpus.dev_rows=-5",
        "decoding.length_penalty=.inf",
        "model.width=99999999",
    ],
)
def test_invalid_values_are_refused(override: str) -> None:
    with pytest.raises(SettingsError):
        read_experiment(Path(__file__).parents[2] / "examples" / "synthetic.yaml", [override])
