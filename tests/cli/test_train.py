"""`manyglot train` and `manyglot plot` as a user runs them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import yaml

from manyglot.config.experiment import Experiment
from manyglot.folders import locked_folder
from tests.commands import mistake, run


def test_a_dry_run_shows_the_plan(
    config: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run(capsys, "prepare", config)
    out, _ = run(capsys, "train", config, "--dry-run")
    assert "4 directions, 240 sentence pairs" in out
    assert "estimated from" in out
    assert "new run" in out
    assert "Directions seen more than 50 times" not in out
    shown = json.loads(run(capsys, "train", config, "--dry-run", "--json", "--set", "training.max_steps=9999")[0])
    assert shown["training"]["steps"] == shown["training"]["steps_left"] == 9999
    assert shown["warnings"][0].startswith("Directions seen more than 50 times: ")
    config.with_name("run").mkdir()
    (config.with_name("run") / "thesis.txt").write_text("years of work")
    out, err = run(capsys, "train", config, "--dry-run", code=2)
    assert "refused: " in out
    assert "is not a run folder" in err
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert "Start it without torchrun." in mistake(capsys, "train", config, "--dry-run")


def test_a_locked_run_is_refused(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(capsys, "prepare", config)
    with locked_folder(config.with_name("run")):
        assert "Another process is writing" in mistake(capsys, "train", config)
    assert list(config.with_name("run").iterdir()) == []


def test_a_run_with_other_guidance_is_not_resumed(
    trained: Experiment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "experiment.yaml"
    path.write_text(yaml.safe_dump(trained.to_dict()), encoding="utf-8")
    line = mistake(capsys, "train", path, "--set", "guidance=[{method: lee}]")
    assert 'holds a run with different settings (guidance); its guidance is [{"method": "token", ' in line


def test_learning_curves_are_plotted(trained: Experiment, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    other = tmp_path / "a" / trained.run.name
    other.mkdir(parents=True)
    shutil.copy(trained.run / "log.jsonl", other)
    picture = tmp_path / "curves.svg"
    assert run(capsys, "plot", trained.run, trained.run, "-o", picture)[0] == f"{picture}\n"
    assert str(trained.run) not in picture.read_text("utf-8")
    run(capsys, "plot", trained.run, other, "-o", picture, "--by-tokens")
    svg = picture.read_text("utf-8")
    assert all(text in svg for text in ("target tokens", "qab", str(trained.run), str(other)))


def test_runs_that_cannot_be_plotted_are_refused(
    trained: Experiment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert f"Did you mean {trained.run}?" in mistake(capsys, "plot", trained.run / "model")
    assert "nothing has no log.jsonl. Give the folder of a run." in mistake(capsys, "plot", tmp_path / "nothing")
    assert ".png, .svg or .pdf" in mistake(capsys, "plot", trained.run, "-o", tmp_path / "curves.gif")
    (tmp_path / "log.jsonl").touch()
    assert "log.jsonl has no training record with a loss yet" in mistake(capsys, "plot", tmp_path)
    (tmp_path / "log.jsonl").write_text('{"step": 1}\noops\n')
    _, err = run(capsys, "plot", tmp_path, code=2)
    assert "log.jsonl: line 2 is damaged and skipped." in err
