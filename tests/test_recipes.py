"""The recipes: one for each system of the paper's tables, with the paper's number of parameters."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from manyglot import workflow
from manyglot.config import read_experiment

RECIPES = Path(__file__).parent.parent / "recipes"
MILLIONS = {"ted59": {"plain": 77, "matrix": 92, "laln": 94}, "opus100": {"plain": 77, "matrix": 103, "deep": 236}}
FILES = sorted(path.relative_to(RECIPES) for path in RECIPES.glob("*/*.yaml"))


def test_there_is_one_for_each_system() -> None:
    counts = {folder: sum(path.parent.name == folder for path in FILES) for folder in MILLIONS}
    assert counts == {"ted59": 28, "opus100": 16}


@pytest.mark.parametrize("file", FILES, ids=str)
def test_its_model_has_the_paper_s_size(file: Path) -> None:
    description = workflow.describe(RECIPES / file)
    methods = {each["method"] for each in description["guidance"]}
    kind = "matrix" if methods & {"laa", "random_laa", "adapter"} else "laln" if "laln" in methods else "plain"
    kind = "deep" if "24_layers" in file.name else kind
    assert round(description["num_parameters"] / 1e6) == MILLIONS[file.parent.name][kind]
    assert description["num_parameters"] == sum(description["parameters"].values())
    assert len(description["languages"]) == {"ted59": 59, "opus100": 100}[file.parent.name]


@pytest.mark.parametrize("file", FILES, ids=str)
def test_it_is_as_short_as_its_difference(file: Path) -> None:
    values = yaml.safe_load((RECIPES / file).read_text("utf-8"))
    assert values.pop("run") == f"runs/{file.parent}/{file.stem}"
    base = values.pop("extends")
    experiment, shared = read_experiment(RECIPES / file), read_experiment(RECIPES / file.parent / base)
    mine, theirs = experiment.resolved(), shared.resolved()
    assert {key for key in mine if mine[key] != theirs[key]} <= {*values, "run"}
    oversampled = "no_oversampling" not in file.name
    assert experiment.batches.temperature == (5 if oversampled else None)


def test_no_two_are_the_same() -> None:
    systems = [
        str({k: v for k, v in read_experiment(RECIPES / file).resolved().items() if k != "run"}) for file in FILES
    ]
    assert len(set(systems)) == len(FILES) == 44


def test_the_readme_names_them_all() -> None:
    text = (RECIPES / "README.md").read_text("utf-8")
    for file in FILES:
        assert f"`{file.stem}`" in text
