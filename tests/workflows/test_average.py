from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch

import manyglot
from manyglot.config.experiment import Experiment
from manyglot.errors import FolderError, SettingsError
from manyglot.model.model_folder import load_model, seal_model
from manyglot.model.weights_file import read_weights_header
from manyglot.training.best_steps import StepScore
from tests.commands import mistake, run
from tests.model.run_folders import RunMaker, damage, weights_of_step
from tests.model.run_folders import make_run as make_run

BEST = tuple(StepScore(step, "dev_bleu", 50.0 - step) for step in (10, 40, 20))


def kept(trained: Experiment, last: int) -> dict[str, object]:
    """Settings with which a run keeps its last checkpoints."""
    return {"training": load_model(trained.run / "model").config["training"] | {"keep_last_checkpoints": last}}


def check_mean(folder: Path, trained: Experiment, *steps: int) -> None:
    """Check that the weights are the float64 mean of the checkpoints, rounded to float32."""
    original = load_model(trained.run / "model").model.state_dict()
    each = [weights_of_step(original, step) for step in steps]
    model = load_model(folder)
    for name, weight in model.model.state_dict().items():
        expected = torch.stack([weights[name].double() for weights in each]).mean(dim=0)
        assert torch.equal(weight, expected.float()), name
    assert model.training_info["averaged_steps"] == sorted(steps)


def test_the_last_checkpoints_are_averaged(trained: Experiment, make_run: RunMaker) -> None:
    folder = make_run(10, 20, 30, 40, best=BEST, changes=kept(trained, 3))
    model = manyglot.average(folder, last=3)
    assert model == folder / "averaged-last-3"
    check_mean(model, trained, 20, 30, 40)
    assert load_model(model).training_info == {
        "steps": 40,
        "step": 40,
        "best_metric": None,
        "averaged_steps": [20, 30, 40],
        "averaged_checkpoints": [str(folder / "checkpoints" / f"step-000000{step}") for step in (20, 30, 40)],
        "selected_by": "last",
    }
    assert manyglot.load(model).translate(["duka"], to="qab")


def test_a_damaged_config_of_the_run_does_not_matter(trained: Experiment, make_run: RunMaker, tmp_path: Path) -> None:
    folder = make_run(10, 20)
    (folder / "config.yaml").write_text("[")
    check_mean(manyglot.average(folder, tmp_path / "new", last=2), trained, 10, 20)


def test_the_best_checkpoints_are_averaged(trained: Experiment, make_run: RunMaker, tmp_path: Path) -> None:
    folder = make_run(10, 20, 30, 40, best=BEST)
    check_mean(manyglot.average(str(folder), tmp_path / "new", best=2), trained, 10, 40)
    assert load_model(tmp_path / "new").training_info["selected_by"] == "best"
    assert not (folder / "averaged-best-2").exists()


def test_given_checkpoints_are_averaged(trained: Experiment, make_run: RunMaker, tmp_path: Path) -> None:
    checkpoints = make_run(10, 20, 30) / "checkpoints"
    given = [checkpoints / "step-00000030", checkpoints / "step-00000010"]
    check_mean(manyglot.average(given, tmp_path / "new"), trained, 10, 30)
    halves = [tmp_path / "half-10", tmp_path / "half-30"]
    for folder, half in zip(given, halves, strict=True):
        manyglot.export(folder, half, export_format="manyglot")
    small = manyglot.average(halves, tmp_path / "small")
    assert {dtype for dtype, _ in read_weights_header(small / "model.safetensors").values()} == {"BF16"}


def test_a_damaged_checkpoint_is_replaced_by_an_earlier_one(
    trained: Experiment, make_run: RunMaker, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = make_run(10, 20, 30, changes=kept(trained, 3))
    damage(folder, 30)
    check_mean(manyglot.average(folder, last=2), trained, 10, 20)
    assert "step-00000030 is damaged and skipped" in capsys.readouterr().err
    with pytest.raises(FolderError, match="has 2 intact checkpoints to average, but --last asks for 3"):
        manyglot.average(folder, last=3)
    with pytest.raises(FolderError, match="was altered or damaged"):
        manyglot.average([folder / f"checkpoints/step-000000{step}" for step in (20, 30)], folder / "new")
    assert not (folder / "new").exists()


def test_too_few_checkpoints_are_an_error_that_names_the_setting(trained: Experiment, make_run: RunMaker) -> None:
    folder = make_run(10, 20, 30, 40, best=BEST, changes=kept(trained, 2))
    with pytest.raises(
        FolderError, match=r"has 2 intact checkpoints .* --last asks for 3\. .*training\.keep_last_checkpoints"
    ):
        manyglot.average(folder, last=3)
    with pytest.raises(FolderError, match=r"has 3 intact .* --best asks for 4\. .*training\.keep_best_checkpoints"):
        manyglot.average(folder, best=4)
    assert {path.name for path in folder.iterdir()} == {"config.yaml", "data.sha256", "checkpoints"}


def test_checkpoints_of_other_trainings_are_refused(
    trained: Experiment, make_run: RunMaker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one, resumed, seed = make_run(10), make_run(20, name="resumed", changes=kept(trained, 7)), {"seed": 7}
    other = make_run(20, name="other", changes=seed)
    model = {**trained.to_dict()["model"], "dropout": 0.5}
    shape = make_run(20, name="shape", changes={"model": model, **seed})
    paths = [next((folder / "checkpoints").iterdir()) for folder in (one, resumed, other, shape)]
    manyglot.average(paths[:2], tmp_path / "new")
    capsys.readouterr()
    command = ("average", "-o", tmp_path / "wrong")
    assert "have different seed. Average checkpoints of one run" in mistake(capsys, *command, paths[0], paths[2])
    assert "have different model.dropout, seed." in mistake(capsys, *command, paths[0], paths[3])
    assert not (tmp_path / "wrong").exists()


def test_other_subwords_are_refused(make_run: RunMaker, tmp_path: Path) -> None:
    paths = sorted((make_run(10, 20) / "checkpoints").iterdir())
    (paths[1] / "subwords.model").write_bytes((paths[1] / "subwords.model").read_bytes() + b"\x9a\x06\x01x")
    seal_model(paths[1])
    with pytest.raises(FolderError, match=r"have different subwords\.model"):
        manyglot.average(paths, tmp_path / "new")


def test_the_command(
    trained: Experiment, make_run: RunMaker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = make_run(10, 20)
    out, err = run(capsys, "average", folder, "--last", 2)
    assert out == f"{folder / 'averaged-last-2'}\n"
    assert "The model has the mean weights of steps 10, 20." in err
    assert "weights     mean of steps 10, 20" in run(capsys, "describe", out.strip())[0]
    assert "already exists" in mistake(capsys, "average", folder, "--last", 2)
    described = json.loads(run(capsys, "average", folder, "--last", 2, "-o", tmp_path / "new", "--json")[0])
    assert described["model"] == str(tmp_path / "new")
    assert described["averaged_steps"] == [10, 20]
    scores = tmp_path / "scores"
    run(capsys, "evaluate", tmp_path / "new", "--data", trained.data, "--output", scores)
    assert "mean weights of steps 10, 20" in (scores / "report.html").read_text("utf-8")


def test_mistakes_are_one_line(make_run: RunMaker, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = make_run(10, 20)
    checkpoint = folder / "checkpoints" / "step-00000010"
    assert "exclude each other" in mistake(capsys, "average", folder, "--last", 2, "--best", 2)
    assert "at least two checkpoints, not 1" in mistake(capsys, "average", folder, "--best", 1)
    assert "takes one run folder" in mistake(capsys, "average", folder, checkpoint, "--last", 2)
    assert "is a run folder. Select its checkpoints with --last N or --best N" in mistake(capsys, "average", folder)
    assert "Give the folder to write (--output)" in mistake(
        capsys, "average", checkpoint, folder / "checkpoints" / "step-00000020"
    )
    output = ("-o", tmp_path / "new")
    assert "two different checkpoints" in mistake(capsys, "average", checkpoint, *output)
    assert "two different checkpoints" in mistake(capsys, "average", checkpoint, checkpoint, *output)
    assert "gone does not exist" in mistake(capsys, "average", tmp_path / "gone", "--last", 2)
    assert "has no checkpoints" in mistake(capsys, "average", checkpoint, "--last", 2)
    shutil.rmtree(folder / "checkpoints")
    assert "has no checkpoints. `manyglot train` writes one" in mistake(capsys, "average", folder, "--last", 2)
    with pytest.raises(SettingsError):
        manyglot.average([])
