from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from manyglot.config.experiment import Experiment
from manyglot.errors import FolderError
from manyglot.model.model_folder import load_model
from manyglot.training.checkpoint import RunState, save_checkpoint
from manyglot.workflows.probe import iter_checkpoint_models
from tests.commands import mistake, run
from tests.probing.models import CODES, VALUES, Maker
from tests.probing.models import make as make
from tests.probing.synthetic_uriel import write_uriel


@pytest.fixture
def learned(make: Maker, tmp_path: Path) -> Path:
    """A run whose checkpoints reveal more of the features at each step, starting from noise."""
    folder = make("learned", {"method": "token"})
    trained = load_model(folder)
    rng = torch.Generator().manual_seed(1)
    for step, noise in ((100, 100.0), (200, 3.0), (300, 0.0)):
        weights = trained.model.state_dict()
        tags = weights["embedding.weight"]
        weights["embedding.weight"] = tags + noise * torch.randn(tags.shape, generator=rng)
        save_checkpoint(folder.parent / "checkpoints", weights, {}, RunState(step=step), 9, trained.description)
    shutil.copy(folder / "config.yaml", folder.parent / "config.yaml")
    write_uriel(tmp_path / "data", CODES, VALUES.astype(np.float32))
    return folder.parent


def test_all_checkpoints_are_probed(learned: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = (
        "probe",
        f"mine={learned}",
        "--all-checkpoints",
        "--uriel-folder",
        tmp_path / "data",
        "--k-values",
        "1,3",
    )
    command = (*command, "--num-permutations", 99)
    out, _ = run(capsys, *command, "--json")
    results = json.loads(out)["results"]
    assert [each["step"] for each in results] == [100, 200, 300]
    accuracies = [each["group_results"][0]["knn_accuracy"]["at_selected_k"] for each in results]
    assert accuracies == sorted(accuracies)
    assert accuracies[0] < 75 < 97 < accuracies[2]
    syntactic = [each["mantel_results"][2] for each in results]
    assert syntactic[0]["p_value"] > syntactic[2]["p_value"] == 0.01
    out, err = run(capsys, *command, "-o", tmp_path / "steps.svg")
    rows = [line for line in out.splitlines() if line.startswith("| mine (token)")]
    assert [row.split("|")[2].strip() for row in rows] == ["100", "200", "300"]
    assert out.count("| majority class |") == 1
    assert "Excluded: nl (not in URIEL)." in err
    svg = (tmp_path / "steps.svg").read_text("utf-8")
    assert all(text in svg for text in ("syntax", "inventory", "genetic distance", "mine (token)", "step"))


def test_a_damaged_checkpoint_is_reported_and_skipped(learned: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (learned / "checkpoints" / "step-00000200" / "model.safetensors").write_bytes(b"")
    assert [step for step, _ in iter_checkpoint_models(learned)] == [100, 300]
    assert "step-00000200 is damaged and skipped" in capsys.readouterr().err
    for path in (learned / "checkpoints").rglob("model.safetensors"):
        path.write_bytes(b"")
    with pytest.raises(FolderError, match="are damaged"):
        list(iter_checkpoint_models(learned))


def test_an_unfinished_run_can_be_probed(trained: Experiment, tmp_path: Path) -> None:
    shutil.copytree(trained.run, tmp_path / "run", ignore=shutil.ignore_patterns("model"))
    steps = {
        step: model.model.language_representations()["token"]
        for step, model in iter_checkpoint_models(tmp_path / "run")
    }
    assert len(steps) > 1
    whole = load_model(trained.run / "model")
    assert any(torch.equal(tags, whole.model.language_representations()["token"]) for tags in steps.values())


def test_runs_without_several_checkpoints_are_refused(
    learned: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ("probe", "--all-checkpoints", "--uriel-folder", tmp_path / "data")
    assert "gone does not exist" in mistake(capsys, *command, tmp_path / "gone")
    assert f"Did you mean {learned}?" in mistake(capsys, *command, learned / "model")
    assert "has no checkpoints. Give the `run` folder" in mistake(capsys, *command, tmp_path)
    assert "combined with --predict-missing or --map" in mistake(capsys, *command, learned, "--predict-missing", "nl")
    shutil.rmtree(learned / "checkpoints" / "step-00000100")
    shutil.rmtree(learned / "checkpoints" / "step-00000200")
    assert "has only one checkpoint, step-00000300" in mistake(capsys, *command, learned)


def test_weights_of_another_model_are_reported_and_skipped(learned: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trained = load_model(learned / "model")
    weights = trained.model.state_dict() | {"embedding.weight": torch.zeros(2)}
    save_checkpoint(learned / "checkpoints", weights, {}, RunState(step=400), 9, trained.description)
    assert [step for step, _ in iter_checkpoint_models(learned)] == [100, 200, 300]
    assert "step-00000400 is damaged and skipped: The weights" in capsys.readouterr().err


def test_a_run_folder_or_a_checkpoint_is_probed_like_its_model(
    learned: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ("probe", "--uriel-folder", tmp_path / "data", "--k-values", "1,3", "--num-permutations", 9, "--json")
    names = {
        learned / "model": "learned",
        learned: "learned",
        learned / "checkpoints" / "step-00000300": "learned/step-00000300",
    }
    results = [json.loads(run(capsys, *command, folder)[0])["results"] for folder in names]
    assert [result[0].pop("model_name") for result in results] == list(names.values())
    assert results[0] == results[1] == results[2]
