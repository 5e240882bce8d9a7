from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import pytest
from pydantic import Field, ValidationError

import manyglot
from manyglot.config.base_settings import Settings, are_equal_settings, iter_documented_fields, parse_settings
from manyglot.config.experiment import Experiment, load_experiment, read_experiment
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
            "rooms should be a number, got 'many'.",
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
        "seed=1:30",
        "seed=1_000",
        "seed='7'",
        "training.max_steps=true",
        "training.learning_rate=1e308",
        "model.num_encoder_layers=1000000000000000000000000000000",
        "batches.target_weights={qab: true}",
        "batches.target_weights={qab: 1e308}",
        "batches.direction_weights={qab>qaa: 1e-300}",
        "guidance=[{method: laa, init_gain: true}]",
    ],
)
def test_invalid_values_are_refused(override: str) -> None:
    with pytest.raises(SettingsError, match=override.partition("=")[0]):
        read_experiment(Path(__file__).parents[2] / "examples" / "synthetic.yaml", [override])


def numeric_fields() -> Iterator[tuple[type[Settings], str]]:
    """All settings of the package that are numbers, or contain numbers."""
    for module in pkgutil.walk_packages(manyglot.__path__, "manyglot."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    waiting, seen = [Settings], set()
    while waiting:
        settings_class = waiting.pop()
        waiting += settings_class.__subclasses__()
        if settings_class.__module__.startswith("manyglot.") and settings_class not in seen:
            seen.add(settings_class)
            for name, field in settings_class.model_fields.items():
                if {"int", "float"} & set(re.findall(r"\w+", str(field.annotation))):
                    yield settings_class, name


def test_every_number_has_bounds_and_is_neither_true_nor_text() -> None:
    fields = list(numeric_fields())
    assert len(fields) > 50
    for settings_class, name in fields:
        annotation = str(settings_class.model_fields[name].annotation)
        for value in (1e308, -1e308, 1e-308 - 1, 10**30, -(10**30), True, False, "1", float("nan"), float("inf")):
            given: Any = {"en": value} if "dict" in annotation else [value, value] if "tuple" in annotation else value
            with pytest.raises(ValidationError) as caught:
                settings_class.model_validate({name: given})
            errors = caught.value.errors()
            assert any(error["loc"][:1] == (name,) or error.get("ctx", {}).get("field") == name for error in errors)


@pytest.mark.parametrize("number", [2, 2.0, 1e5])
def test_whole_numbers_may_be_written_as_decimals(number: float) -> None:
    assert parse_settings(House, {"rooms": number}).rooms == number


NESTED: dict[str, Any] = {}
for _ in range(3000):
    NESTED = {"a": NESTED}
ENDLESS: dict[str, Any] = {}
ENDLESS["seed"] = ENDLESS


@pytest.mark.parametrize(
    "values",
    [
        {"seed": 10**5000},
        {"run": "a\0b"},
        {"run": "\ud800"},
        {"run": "x" * 100_000},
        {"x" * 4000: 1},
        {"x" * 100_000: 1},
        {"model": {"x" * 4000: 1}},
        {"guidance": [{"method": "x" * 4000}]},
        {"batches": {"target_weights": {"x" * 4000: 0}}},
        {"training": {"lr_schedule": "x" * 4000}},
        {1: 2},
        {("a",): 2},
        {"seed": object()},
        {"seed": {"a": 1}},
        {"seed": [[["x" * 4000]] * 20] * 20},
        NESTED,
        ENDLESS,
    ],
    ids=range(17),
)
def test_hostile_dictionaries_are_a_short_error(values: dict[str, Any]) -> None:
    with pytest.raises(SettingsError) as caught:
        load_experiment({"data": "d", "run": "r", "corpus": {"kind": "synthetic"}} | values)
    assert len(str(caught.value)) <= 500


def test_a_missing_setting_equals_null_at_any_depth() -> None:
    old = {"kind": "mixture", "parts": [{"path": "a"}, {"path": "b"}]}
    new = {"kind": "mixture", "parts": [{"path": "a", "train_share": None}, {"path": "b"}], "license": None}
    assert are_equal_settings(old, new)
    assert are_equal_settings(new, old)
    assert not are_equal_settings(old, {**new, "license": "MIT"})
    assert not are_equal_settings(old, {**new, "parts": new["parts"][:1]})
    assert not are_equal_settings(old, {**new, "parts": [{"path": "a"}, {"path": "c"}]})
    assert not are_equal_settings([1], 1)
