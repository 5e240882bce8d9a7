"""A model that was trained from another one names it, and its licenses if they are known."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from manyglot.config.experiment import Experiment
from manyglot.model.initial_model import describe_initial_model, started_from
from manyglot.model.model_card import CARD_NAME


def test_the_card_and_the_settings_state_licenses(trained: Experiment, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(trained.run / "model", tmp_path / "old"))
    assert describe_initial_model(folder) == {"model": "old", "license": None, "text_license": None}
    card = folder / CARD_NAME
    card.write_text(card.read_text("utf-8").replace("---\n", "---\nlicense: cc-by-nc-4.0\n", 1), "utf-8")
    config = folder / "config.yaml"
    config.write_text(config.read_text("utf-8").replace("license: null", "license: CC0", 1), "utf-8")
    known = {"model": "old", "license": "cc-by-nc-4.0", "text_license": "CC0"}
    assert describe_initial_model(folder) == known
    assert started_from({"init": {"model": str(folder)}}) == {"started_from": known}
    assert started_from({"init": None}) == started_from({}) == {}


@pytest.mark.parametrize("card", ["", "---\n", "---\nlicense: [\n---\n", "---\n- a\n---\n", "---\nlicense: 5\n---\n"])
def test_a_card_may_have_been_edited(card: str, tmp_path: Path) -> None:
    (tmp_path / CARD_NAME).write_text(card, "utf-8")
    assert describe_initial_model(tmp_path)["license"] is None


def test_a_run_and_a_checkpoint_have_the_name_of_the_run(trained: Experiment) -> None:
    checkpoint = next((trained.run / "checkpoints").iterdir())
    names = [describe_initial_model(path)["model"] for path in (trained.run, trained.run / "model", checkpoint)]
    assert names == [trained.run.name] * 3


def test_nothing_is_downloaded_or_required() -> None:
    assert describe_initial_model(Path("hf://owner/name"))["model"] == "hf://owner/name"
    assert describe_initial_model(Path("somewhere/nowhere")) == {
        "model": "nowhere", "license": None, "text_license": None
    }  # fmt: skip
