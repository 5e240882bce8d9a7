"""The recipes: one per system of the paper's tables, with the paper's number of parameters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

import manyglot
from manyglot.config.experiment import read_experiment

RECIPES = Path(__file__).parent.parent / "recipes"
FILES = sorted(path.relative_to(RECIPES) for folder in ("ted59", "opus100") for path in (RECIPES / folder).iterdir())
SRC, TGT = {"token": "source"}, {"token": "target"}
RANDOM = {"random_laa": ["dec.self"]}
SYSTEMS: dict[str, tuple[dict[str, Any], int, int | None]] = {
    # guidance methods with their sites, and the paper's millions of parameters on TED-59 and OPUS-100
    "token_tgt": (TGT, 77, 77),
    "token_src": (SRC, 77, 77),
    "lee_2": ({"lee": ["enc.self"]}, 77, None),
    "lee_1_2": ({"lee": ["enc.ffn", "enc.self"]}, 77, None),
    "lee_5": ({"lee": ["dec.self"]}, 77, None),
    "lee_4_5": ({"lee": ["dec.cross", "dec.self"]}, 77, 77),
    "lee_3_4_5": ({"lee": ["dec.ffn", "dec.cross", "dec.self"]}, 77, None),
    "lee_4_5_6": ({"lee": ["dec.cross", "dec.self", "memory"]}, 77, None),
    "lee_2_5": ({"lee": ["enc.self", "dec.self"]}, 77, None),
    "laa_enc_self": ({"laa": ["enc.self"]}, 92, None),
    "laa_dec_self": ({"laa": ["dec.self"]}, 92, 103),
    "laa_enc_self_dec_self": ({"laa": ["enc.self", "dec.self"]}, 92, None),
    "laa_dec_self_cross": ({"laa": ["dec.self", "dec.cross"]}, 92, 103),
    "laa_dec_self_token_tgt": ({"laa": ["dec.self"], **TGT}, 92, None),
    "laa_dec_self_lee_4_5": ({"laa": ["dec.self"], "lee": ["dec.cross", "dec.self"]}, 92, 103),
    "adapter_enc": ({"adapter": ["enc.ffn"]}, 92, None),
    "adapter_dec": ({"adapter": ["dec.ffn"]}, 92, None),
    "adapter_enc_dec": ({"adapter": ["enc.ffn", "dec.ffn"]}, 92, None),
    "laln_lalt": ({"laln": ["enc.self", "enc.ffn", "dec.self", "dec.cross", "dec.ffn"], "lalt": None}, 94, None),
    "random_laa_token_src": (RANDOM | SRC, 92, 103),
    "random_laa_token_tgt": (RANDOM | TGT, 92, 103),
}
WITHOUT_OVERSAMPLING = {
    "token_tgt",
    "token_src",
    "lee_4_5",
    "laa_dec_self",
    "laa_dec_self_lee_4_5",
    "random_laa_token_src",
    "random_laa_token_tgt",
}
STEPS = {"ted59": (226_000, 142_000), "opus100": (933_000, 617_000)}


def test_every_system_has_a_recipe() -> None:
    deep = "laa_dec_self_lee_4_5_no_oversampling_24_layers"
    raw = {f"{name}_no_oversampling" for name in WITHOUT_OVERSAMPLING}
    opus = {name for name, (_, _, millions) in SYSTEMS.items() if millions}
    assert {file.stem for file in FILES if file.parent.name == "ted59"} == SYSTEMS.keys() | raw
    assert {file.stem for file in FILES if file.parent.name == "opus100"} == opus | raw | {deep}
    assert len(FILES) == 28 + 16


@pytest.mark.parametrize("file", FILES, ids=str)
def test_a_recipe_is_the_system_of_the_paper(file: Path) -> None:
    dataset, (name, _, kind) = file.parent.name, file.stem.partition("_no_oversampling")
    deep, raw = kind == "_24_layers", "no_oversampling" in file.stem
    methods, *millions = SYSTEMS[name]
    experiment, description = read_experiment(RECIPES / file), manyglot.describe(RECIPES / file).to_dict()
    given = {each["method"]: each.get("sites", each.get("side")) for each in description["guidance"]}
    assert given == methods
    assert all(each.get("mode", "faithful") == "faithful" for each in description["guidance"])
    assert round(description["num_parameters"] / 1e6) == (236 if deep else millions[dataset == "opus100"])
    assert description["num_parameters"] == sum(description["parameters"].values())
    assert len(description["languages"]) == {"ted59": 59, "opus100": 100}[dataset]
    layers = experiment.model.num_encoder_layers, experiment.model.num_decoder_layers
    assert layers == ((24, 24) if deep else (6, 6))
    assert experiment.model.dropout == (0.2 if deep or dataset == "ted59" else 0.1)
    assert experiment.batches.temperature == (None if raw else 5)
    assert experiment.training.max_steps == STEPS[dataset][raw]
    real_batch = experiment.batches.max_tokens * experiment.training.gradient_accumulation
    assert real_batch == {"ted59": 65_536, "opus100": 98_304}[dataset]


@pytest.mark.parametrize("file", FILES, ids=str)
def test_a_recipe_has_only_its_differences(file: Path) -> None:
    values = yaml.safe_load((RECIPES / file).read_text("utf-8"))
    assert values.pop("run") == f"runs/{file.parent}/{file.stem}"
    shared = read_experiment(RECIPES / file.parent / values.pop("extends")).to_dict()
    for key, value in values.items():
        for part in value if isinstance(value, dict) else []:
            assert shared[key][part] != value[part], f"{key}.{part} is the same without it"
        assert shared[key] != value or file.stem == "token_src", "only Token_src repeats the default"


def test_no_two_recipes_are_equal() -> None:
    systems = [
        str({k: v for k, v in read_experiment(RECIPES / file).to_dict().items() if k != "run"}) for file in FILES
    ]
    assert len(set(systems)) == len(FILES) == 44


def test_mix60_lists_its_languages() -> None:
    description = manyglot.describe(RECIPES / "mix60" / "token_src.yaml").to_dict()
    assert len(description["languages"]) == 60
    assert description["num_subwords"] == 32_000


def test_the_readme_lists_all_recipes() -> None:
    text = (RECIPES / "README.md").read_text("utf-8")
    for file in FILES:
        assert f"`{file.stem}`" in text
