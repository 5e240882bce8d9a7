"""The model card of a model folder, and where its facts come from."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

import manyglot
from manyglot.config.experiment import Experiment
from manyglot.corpus.languages import Direction
from manyglot.model.guidance import parse_method_settings
from manyglot.model.model_card import CARD_NAME, GroupScore, ModelCard
from manyglot.model.model_folder import load_model
from tests.conftest import tiny_model

CARD = ModelCard(
    tiny_model([parse_method_settings({"method": "laa", "sites": ["dec.cross"]})]),
    ("deu_Latn", "no", "pt-br", "qaa", "zho_Hant"),
    (Direction("no", "pt-br"),),
    {"corpus": {"kind": "multiway", "path": "somewhere/mytext", "license": "CC BY 4.0"}},
    {"best_metric": "dev_bleu", "value": 12.345, "step": 500, "steps": 1500},
)


def header(card: ModelCard) -> dict[str, object]:
    values = yaml.safe_load(card.format().split("---\n")[1])
    assert isinstance(values, dict)
    return values


def test_the_header_has_language_codes_that_hubs_know() -> None:
    assert header(CARD) == {
        "language": ["de", "no", "pt", "zh"],  # none for a private-use code
        "library_name": "manyglot",
        "pipeline_tag": "translation",
        "tags": ["translation", "manyglot"],
    }


def test_the_card_describes_the_model() -> None:
    text = CARD.format()
    assert "# Translation between 5 languages" in text
    assert "German (`deu_Latn`)" in text
    assert "tell the model its target language: `laa` (sites: dec.cross)." in text
    assert "`mytext`. License of the text: CC BY 4.0." in text
    assert "somewhere" not in text
    assert "1 of the 20 directions" in text
    assert "| `dev_bleu` | 12.35 | 500 of 1,500 |" in text or "| `dev_bleu` | 12.34 | 500 of 1,500 |" in text
    assert 'to="zho_Hant"' in text
    exported = replace(CARD, targets=("no", "pt-br"), config={}, training_info={}).format()
    assert "# Translation into Norwegian and Portuguese (br)" in exported
    assert "## Scores" not in exported
    assert "## Training data" not in exported


def test_the_parts_of_a_mixture_have_licenses() -> None:
    parts = [
        {"kind": "multiway", "path": "somewhere/new", "license": "CC0"},
        {"kind": "files", "path": "old", "license": None},
        {"kind": "phrasebook", "license": "Unicode License v3"},
    ]
    text = replace(CARD, config={"corpus": {"kind": "mixture", "parts": parts, "license": None}}).format()
    assert (
        "The text is a mixture of `new` (license: CC0), `old` (license: not stated) and the phrasebook corpus of "
        "manyglot (license: Unicode License v3)." in text
    )
    text = replace(CARD, config={"corpus": {"kind": "mixture", "parts": parts[:2], "license": "MIT"}}).format()
    assert "`new` (license: CC0) and `old` (license: MIT)." in text


@pytest.mark.parametrize(
    ("licenses", "shown"),
    [
        ((None, None), "license: see its card"),
        (("cc-by-nc-4.0", None), "license: cc-by-nc-4.0"),
        (("mit", "CC0"), "license: mit; license of its text: CC0"),
    ],
)
def test_the_model_that_training_started_from_is_named(licenses: tuple[str | None, ...], shown: str) -> None:
    started = {"model": "old", "license": licenses[0], "text_license": licenses[1]}
    text = replace(CARD, training_info={**CARD.training_info, "started_from": started}).format()
    assert f"Training started from the weights of `old` ({shown})." in text


def test_scores_are_shown_and_indexed() -> None:
    scores = [GroupScore("supervised", 2, 20.04, 45.06, 98.7), GroupScore("zero shot", 18, 10.0, 30.0, None)]
    card = replace(CARD, scores=scores)
    assert "| supervised | 2 | 20.0 | 45.1 | 98.7% |\n| zero shot | 18 | 10.0 | 30.0 |  |" in card.format()
    (entry,) = header(card)["model-index"]  # type: ignore[misc, str-unpack]
    assert [result["metrics"][0] for result in entry["results"]] == [  # type: ignore[index]
        {"type": "bleu", "value": 20.04},
        {"type": "bleu", "value": 10.0},
    ]


def test_a_trained_model_has_a_card_that_may_be_edited(trained: Experiment, tmp_path: Path) -> None:
    folder = trained.run / "model"
    text = (folder / CARD_NAME).read_text("utf-8")
    assert "Synthetic languages, which manyglot generates." in text
    manyglot.export(folder, tmp_path / "small", export_format="manyglot")
    (tmp_path / "small" / CARD_NAME).write_text("mine", encoding="utf-8")
    assert load_model(tmp_path / "small").trained_directions
    (tmp_path / "small" / CARD_NAME).unlink()
    assert load_model(tmp_path / "small").trained_directions


def test_an_export_shows_the_evaluation_in_its_run(trained: Experiment, tmp_path: Path) -> None:
    run = shutil.copytree(trained.run, tmp_path / "run")
    evaluation = manyglot.evaluate(run / "model", trained.data, zero_shot=True, output=run / "scores")
    manyglot.export(run, tmp_path / "small", export_format="manyglot")
    text = (tmp_path / "small" / CARD_NAME).read_text("utf-8")
    mean = evaluation.averages()
    supervised = next(value for name, value in mean.items() if name == "supervised")
    assert f"| supervised | {supervised['num_directions']} | {supervised['bleu']:.1f} |" in text


def test_the_license_of_the_text_does_not_change_the_data(trained: Experiment) -> None:
    licensed = trained.model_copy(update={"corpus": trained.corpus.model_copy(update={"license": "CC0"})})
    assert manyglot.prepare(licensed).folder == trained.data
    assert manyglot.train(licensed).model_folder == trained.run / "model"
