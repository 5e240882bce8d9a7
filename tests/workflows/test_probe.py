from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from manyglot.config.experiment import Experiment
from manyglot.errors import FolderError
from manyglot.model.folder import load_model
from manyglot.training.checkpoint import RunState, save_checkpoint
from manyglot.workflows.probe import over_training
from tests.commands import mistake, run
from tests.probing.made_up import write_uriel
from tests.probing.models import CODES, VALUES, Maker
from tests.probing.models import make as make


@pytest.fixture
def learnt(make: Maker, tmp_path: Path) -> Path:
    """A run that has learnt more of the features at each of its steps, and begins with noise."""
    folder = make("learnt", {"method": "token"})
    trained = load_model(folder)
    rng = torch.Generator().manual_seed(1)
    for step, noise in ((100, 100.0), (200, 3.0), (300, 0.0)):
        weights = trained.model.state_dict()
        tags = weights["embedding.weight"]
        weights["embedding.weight"] = tags + noise * torch.randn(tags.shape, generator=rng)
        save_checkpoint(folder.parent / "checkpoints", weights, {}, RunState(step=step), keep=9)
    shutil.copy(folder / "config.yaml", folder.parent / "config.yaml")
    write_uriel(tmp_path / "data", CODES, VALUES.astype(np.float32))
    return folder.parent


def test_what_is_learnt_is_followed_from_step_to_step(
    learnt: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ("probe", f"mine={learnt}", "--over-training", "--uriel", tmp_path / "data", "--neighbours", "1,3")
    asked = (*asked, "--permutations", 99)
    out, _ = run(capsys, *asked, "--json")
    results = json.loads(out)["results"]
    assert [each["step"] for each in results] == [100, 200, 300]
    accuracies = [each["groups"][0]["score"]["best"] for each in results]
    assert accuracies == sorted(accuracies)
    assert accuracies[0] < 75 < 97 < accuracies[2]
    syntactic = [each["mantel"][2] for each in results]
    assert syntactic[0]["p_value"] > syntactic[2]["p_value"] == 0.01
    out, err = run(capsys, *asked, "-o", tmp_path / "steps.svg")
    rows = [line for line in out.splitlines() if line.startswith("| mine (token)")]
    assert [row.split("|")[2].strip() for row in rows] == ["100", "200", "300"]
    assert out.count("| majority class |") == 1
    assert "Left out: nl (not in URIEL)." in err
    drawn = (tmp_path / "steps.svg").read_text("utf-8")
    assert all(text in drawn for text in ("syntax", "inventory", "genetic distance", "mine (token)", "step"))


def test_a_damaged_checkpoint_is_named_and_left_out(learnt: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (learnt / "checkpoints" / "step-00000200" / "model.safetensors").write_bytes(b"")
    assert [step for step, _ in over_training(learnt)] == [100, 300]
    assert "step-00000200 is damaged and not used" in capsys.readouterr().err
    for path in (learnt / "checkpoints").rglob("model.safetensors"):
        path.write_bytes(b"")
    with pytest.raises(FolderError, match="are damaged"):
        list(over_training(learnt))


def test_a_run_that_is_not_finished_has_the_languages_of_its_data(trained: Experiment, tmp_path: Path) -> None:
    shutil.copytree(trained.run, tmp_path / "run", ignore=shutil.ignore_patterns("model"))
    steps = {step: model.model.representations()["token"] for step, model in over_training(tmp_path / "run")}
    assert len(steps) > 1
    whole = load_model(trained.run / "model")
    assert any(torch.equal(tags, whole.model.representations()["token"]) for tags in steps.values())


def test_what_cannot_be_followed_is_one_line(learnt: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ("probe", "--over-training", "--uriel", tmp_path / "data")
    assert "gone does not exist" in mistake(capsys, *asked, tmp_path / "gone")
    assert f"Did you mean {learnt}?" in mistake(capsys, *asked, learnt / "model")
    assert "has no checkpoints. Give the folder of a run" in mistake(capsys, *asked, tmp_path)
    assert "Leave out --fill and --map" in mistake(capsys, *asked, learnt, "--fill", "nl")
    shutil.rmtree(learnt / "checkpoints" / "step-00000100")
    shutil.rmtree(learnt / "checkpoints" / "step-00000200")
    assert "has one checkpoint only, of step 300" in mistake(capsys, *asked, learnt)


def test_checkpoints_of_another_model_are_refused(learnt: Path) -> None:
    save_checkpoint(learnt / "checkpoints", {"other": torch.zeros(2)}, {}, RunState(step=400), keep=9)
    with pytest.raises(FolderError, match="is not of the model that"):
        list(over_training(learnt))
