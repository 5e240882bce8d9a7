"""A run folder and a checkpoint stand for a model, whether the run is finished or not."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
import torch

import manyglot
from manyglot.config.experiment import Experiment
from manyglot.errors import FolderError
from manyglot.model.model_folder import load_model, seal_model
from manyglot.model.run_models import load_any_model, run_folder_of
from manyglot.training.best_steps import StepScore
from tests.commands import mistake, run
from tests.model.run_folders import RunMaker, damage, weights_of_step
from tests.model.run_folders import make_run as make_run

BEST = (StepScore(20, "dev_bleu", 30.0), StepScore(10, "dev_nll", 5.0))


def check_step(folder: Path, step: int, trained: Experiment) -> None:
    """Check that a folder stands for the weights of a step."""
    model = load_any_model(folder)
    assert model.training_info["step"] == step
    expected = weights_of_step(load_model(trained.run / "model").model.state_dict(), step)
    assert all(torch.equal(weight, expected[name]) for name, weight in model.model.state_dict().items())


def test_an_unfinished_run_stands_for_its_best_checkpoint(
    trained: Experiment, make_run: RunMaker, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = make_run(10, 20, 30, best=BEST)
    check_step(folder, 20, trained)
    stderr = capsys.readouterr().err
    assert stderr.count("\n") == 1
    assert (
        f"{folder} is not finished. Using its checkpoint of step 20, the best by dev_bleu (30.00); its last checkpoint "
        f"is of step 30." in stderr
    )
    assert load_any_model(folder).training_info == {
        "steps": 30,
        "step": 20,
        "checkpoint": "step-00000020",
        "best_metric": "dev_bleu",
        "value": 30.0,
        "measured_on": {"num_sentences": 5},
    }
    check_step(folder / "checkpoints" / "step-00000010", 10, trained)
    assert f"Using the checkpoint of step 10 in {folder}." in capsys.readouterr().err


def test_a_damaged_best_checkpoint_is_replaced_by_the_next_best_and_then_by_the_last(
    trained: Experiment, make_run: RunMaker, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = make_run(10, 20, 30, best=BEST)
    damage(folder, 20)
    check_step(folder, 10, trained)
    stderr = capsys.readouterr().err
    assert "step-00000020 is damaged and skipped" in stderr
    assert "step 10, the best by dev_nll (5.00); its last checkpoint is of step 30" in stderr
    assert load_any_model(folder).training_info["measured_on"] == {"num_pairs": 9}
    damage(folder, 10)
    check_step(folder, 30, trained)
    damage(folder, 30)
    with pytest.raises(FolderError, match=r"^All checkpoints of .*run are damaged\.$"):
        load_any_model(folder)


def test_without_a_best_metric_an_unfinished_run_stands_for_its_last_intact_checkpoint(
    trained: Experiment, make_run: RunMaker, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = make_run(10, 20, 30)
    check_step(folder, 30, trained)
    assert "is not finished. Using its last checkpoint, of step 30." in capsys.readouterr().err
    damage(folder, 30)
    check_step(folder, 20, trained)
    first, second = capsys.readouterr().err.splitlines()
    assert "step-00000030 is damaged and skipped" in first
    assert "last checkpoint, of step 20" in second
    with pytest.raises(FolderError, match="was altered or damaged"):
        load_any_model(folder / "checkpoints" / "step-00000030")


@pytest.mark.parametrize("name", ["progress.json", "checksums.json"])
def test_the_best_steps_come_from_the_latest_intact_progress(make_run: RunMaker, name: str) -> None:
    folder = make_run(10, 20, best=BEST)
    (folder / "checkpoints" / "step-00000020" / name).write_bytes(b"{")
    assert load_any_model(folder).training_info["steps"] == 10


def test_a_finished_run_stands_for_its_model(
    trained: Experiment, make_run: RunMaker, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = make_run(10, 20, best=BEST)
    shutil.copytree(trained.run / "model", folder / "model")
    assert load_any_model(folder).folder == folder / "model"
    assert f"Using the finished model of {folder}, which has the weights of step 6." in capsys.readouterr().err
    load_any_model(folder / "model")
    assert capsys.readouterr().err == "", "a model folder needs no message"
    (folder / "model" / "model.safetensors").write_bytes(b"")
    with pytest.raises(FolderError, match="was altered or damaged"):
        load_any_model(folder)


def test_a_checkpoint_without_its_step_is_damaged(make_run: RunMaker) -> None:
    folder = make_run(10)
    checkpoint = folder / "checkpoints" / "step-00000010"
    training = json.loads((checkpoint / "training.json").read_text("utf-8"))
    del training["step"]
    (checkpoint / "training.json").write_text(json.dumps(training), encoding="utf-8")
    seal_model(checkpoint)
    with pytest.raises(FolderError, match=r"training\.json does not record the training step"):
        load_any_model(folder / "checkpoints" / "step-00000010")


def test_the_run_of_a_model_folder_or_a_checkpoint(tmp_path: Path) -> None:
    assert run_folder_of(tmp_path / "run" / "model") == tmp_path / "run"
    assert run_folder_of(tmp_path / "run" / "checkpoints" / "step-00000010") == tmp_path / "run"


def test_commands_take_an_unfinished_run_or_a_checkpoint(
    trained: Experiment, make_run: RunMaker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = make_run(10, 20, best=(StepScore(10, "dev_bleu", 30.0),))
    checkpoint, notice = folder / "checkpoints" / "step-00000020", "Using its checkpoint of step 10, the best"
    (tmp_path / "in.txt").write_text("duka\n", encoding="utf-8")
    out, err = run(capsys, "translate", folder, tmp_path / "in.txt", "--to", "qab")
    assert out.count("\n") == 1
    assert notice in err
    out, err = run(capsys, "describe", folder)
    assert "weights     step 10 of 20 so far, best by dev_bleu" in out
    assert notice in err
    assert "weights     step 20 of 20 so far, last step" in run(capsys, "describe", checkpoint)[0]
    assert notice in run(capsys, "export", folder, "--to", "manyglot", "-o", folder / "small")[1]
    assert manyglot.load(folder / "small").engine
    assert "is not an exported model" in mistake(capsys, "translate", folder, "--to", "qab", "--engine", "ctranslate2")
    scores = folder / "scores"
    assert notice in run(capsys, "evaluate", folder, "--data", trained.data, "--output", scores)[1]
    about = json.loads((scores / "about.json").read_text("utf-8"))
    assert about["model"] == str(folder / "checkpoints" / "step-00000010")
    results = json.loads((scores / "results.json").read_text("utf-8"))
    for recorded in (about["training"], results["training"]):
        assert (recorded["step"], recorded["steps"], recorded["checkpoint"]) == (10, 20, "step-00000010")
    assert manyglot.load(checkpoint).translate(["duka"], to="qab")


@pytest.mark.parametrize("damage", ["nonsense", "wrong types", "pipe"])
def test_a_damaged_log_does_not_prevent_the_use_of_a_model(
    trained: Experiment, make_run: RunMaker, capsys: pytest.CaptureFixture[str], damage: str
) -> None:
    folder = make_run(10)
    match damage:
        case "nonsense":
            (folder / "log.jsonl").write_bytes(b"\x00\xff\n[\n")
        case "wrong types":
            (folder / "log.jsonl").write_text('{"step": 2, "loss": "x", "into": 3}\n')
        case "pipe":
            os.mkfifo(folder / "log.jsonl")
    run(capsys, "describe", folder)
    _, err = run(capsys, "evaluate", folder, "--data", trained.data, "--output", folder / "scores")
    assert "log.jsonl" in err
    assert "is ignored" in err if damage == "pipe" else "damaged and skipped" in err


def test_an_export_in_a_run_folder_does_not_hide_the_run(make_run: RunMaker) -> None:
    folder = make_run(10)
    (folder / "exported").mkdir()
    (folder / "exported" / "manyglot.json").write_text("{}", encoding="utf-8")
    assert manyglot.load(folder).translate(["duka"], to="qab")
