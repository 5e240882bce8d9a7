"""Real training processes are killed or stopped; the files they leave are intact, and the run resumes exactly."""

from __future__ import annotations

import errno
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

import manyglot
from manyglot.cli import exit_codes
from manyglot.config.experiment import Experiment, read_experiment
from manyglot.errors import ManyglotError
from manyglot.model.model_folder import read_training_info
from manyglot.training.training_log import read_log
from tests.conftest import tiny_experiment

TRAINING = {"max_steps": 14, "warmup_steps": 3, "checkpoint_every": 3, "validate_every": 4, "log_every": 2}
TRAIN = """
import sys
from manyglot.cli import main
from manyglot.training import best_steps

best_steps.CHANCE_SCORES["dev_chrf"] = -1  # so that chrF++ counts although nothing is learned
main(["train", sys.argv[1]])
"""
MORTAL = """
import os, signal, sys
from manyglot import folders
from manyglot.cli import main
from manyglot.model import weights_file
from manyglot.training import best_steps, checkpoint, trainer

best_steps.CHANCE_SCORES["dev_chrf"] = -1
left = int(sys.argv[1])

def mortal(function):
    def wrapped(*arguments, **named):
        global left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*arguments, **named)
    return wrapped

weights_file.save_file = mortal(weights_file.save_file)  # the second call leaves a partly written checkpoint
checkpoint.shutil.rmtree = mortal(checkpoint.shutil.rmtree)
folders.fsync_path = mortal(folders.fsync_path)
trainer.clip_and_step_optimizer = mortal(trainer.clip_and_step_optimizer)
trainer.TrainingLog.write_line = mortal(trainer.TrainingLog.write_line)
main(["train", sys.argv[2]])
"""
"""Kills itself at a chosen moment: before a step, a log line or a part of writing a checkpoint."""


def prepared(folder: Path, **training: object) -> tuple[Experiment, Path]:
    model = {"width": 16, "ffn_width": 32, "num_heads": 2, "num_encoder_layers": 1, "num_decoder_layers": 1}
    experiment = tiny_experiment(folder, model={**model, "dropout": 0.3}, training={**TRAINING, **training})
    manyglot.prepare(experiment)
    config = folder / "experiment.yaml"
    config.write_text(yaml.safe_dump(experiment.to_dict()), encoding="utf-8")
    return experiment, config


def start(code: str, *arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})


def history(experiment: Experiment) -> list[dict[str, Any]]:
    """Return the log without values that depend on the clock."""
    clock = {"tokens_per_second", "seconds", "validation"}
    return [
        {key: value for key, value in line.items() if key not in clock}
        for line in read_log(experiment.run / "log.jsonl")
    ]


def test_a_repeatedly_killed_run_equals_the_uninterrupted_run(tmp_path: Path) -> None:
    """Bit for bit: weights, losses, data order, best steps and early stopping."""
    choice = {"best_metric": "dev_chrf", "keep_best_checkpoints": 2, "patience": 5, "validate_every": 2}
    (whole, whole_config), (broken, config) = (prepared(tmp_path / name, **choice) for name in ("whole", "broken"))
    start(TRAIN, whole_config).communicate()
    rng, ends = random.Random(1), []
    for _ in range(30):
        process = start(MORTAL, rng.randint(4, 32), config)
        process.communicate()
        ends.append(process.returncode)
        if process.returncode == 0:
            break
    assert ends[-1] == 0
    assert ends.count(-signal.SIGKILL) == len(ends) - 1 >= 3, "it should be killed a few times"
    for file in ("model/model.safetensors", "model/training.json", "checkpoints/step-00000012/model.safetensors"):
        expected, got = ((e.run / file).read_bytes() for e in (whole, broken))
        assert got == expected
    assert history(broken) == history(whole)
    assert {"loss", "epoch", "batch"} <= history(whole)[0].keys()
    expected_names, names = ({path.name for path in (e.run / "checkpoints").iterdir()} for e in (whole, broken))
    assert expected_names == {"step-00000002", "step-00000004", "step-00000009", "step-00000012"}
    assert names >= expected_names, "one more if it was killed before pruning"
    assert read_training_info(whole.run / "model")["steps"] == 12 < TRAINING["max_steps"], "it stopped early"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_signal_finishes_the_step_and_saves(number: signal.Signals, tmp_path: Path) -> None:
    experiment, config = prepared(tmp_path, max_steps=100_000, checkpoint_every=100_000, validate_every=100_000)
    process = start(TRAIN, config)
    deadline = time.monotonic() + 100
    while len(read_log(experiment.run / "log.jsonl")) < 3 and time.monotonic() < deadline:
        time.sleep(0.1)
    process.send_signal(number)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == exit_codes.STOPPED, stderr
    assert "Run the same command to resume." in stderr.splitlines()[-1]
    (checkpoint,) = (experiment.run / "checkpoints").iterdir()
    step = int(checkpoint.name.removeprefix("step-"))
    assert step >= read_log(experiment.run / "log.jsonl")[-1]["step"]
    assert not (experiment.run / "model").exists()


def trained_without_model(folder: Path) -> Path:
    """Train a run, delete its final model and return the folder of its checkpoints."""
    experiment, _ = prepared(folder)
    shutil.rmtree(manyglot.train(experiment).model_folder)
    return experiment.run / "checkpoints"


@pytest.mark.parametrize("name", ["model.safetensors", "optimizer.safetensors", "progress.json", "checksums.json"])
@pytest.mark.parametrize("harm", ["truncated", "modified", "missing"])
def test_a_damaged_checkpoint_is_reported_and_skipped(
    name: str, harm: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    checkpoints = trained_without_model(tmp_path)
    damaged = checkpoints / "step-00000014" / name
    content = bytearray(damaged.read_bytes())
    if harm == "missing":
        damaged.unlink()
    else:
        content[len(content) // 2] ^= 1
        damaged.write_bytes(content if harm == "modified" else content[: len(content) // 2])
    model = manyglot.train(read_experiment(tmp_path / "experiment.yaml")).model_folder
    stderr = capsys.readouterr().err
    assert "step-00000014 is damaged and skipped" in stderr
    assert "Resuming from step 12." in stderr
    assert (model / "model.safetensors").exists()
    assert sorted(path.name for path in checkpoints.iterdir()) == ["step-00000012", "step-00000014"]


def test_damaged_checkpoints_are_not_overwritten(tmp_path: Path) -> None:
    checkpoints = trained_without_model(tmp_path)
    for path in checkpoints.glob("*/model.safetensors"):
        path.write_bytes(b"oops")
    with pytest.raises(ManyglotError, match=r"All checkpoints in .* are damaged"):
        manyglot.train(read_experiment(tmp_path / "experiment.yaml"))
    assert len(list(checkpoints.iterdir())) == 2


def test_an_unreadable_checkpoint_is_not_taken_for_damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoints = trained_without_model(tmp_path)
    leftover = checkpoints / "step-00000002.unfinished"
    leftover.mkdir()
    real_open = os.open

    def failing_open(path: Any, *arguments: int) -> int:
        if str(path).endswith("step-00000014/optimizer.safetensors"):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return real_open(path, *arguments)

    monkeypatch.setattr("manyglot.files.os.open", failing_open)
    with pytest.raises(ManyglotError, match=r"Cannot read .*: Input/output error\."):
        manyglot.train(read_experiment(tmp_path / "experiment.yaml"))
    monkeypatch.undo()
    manyglot.train(read_experiment(tmp_path / "experiment.yaml"))
    assert not leftover.exists(), "the remains of a killed deletion are deleted on resume"


def test_a_full_disk_keeps_the_earlier_checkpoint(tmp_path: Path) -> None:
    experiment, config = prepared(tmp_path, best_metric=None)
    limited = (
        "import resource, sys; from manyglot.cli import main; from manyglot.training import trainer\n"
        "save = trainer.save_checkpoint\n"
        "def full(folder, model, optimizer, state, *rest):\n"
        "    most = 10**9 if state.step < 6 else 20_000\n"
        "    resource.setrlimit(resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))\n"
        "    save(folder, model, optimizer, state, *rest)\n"
        "trainer.save_checkpoint = full\n"
        "main(['train', sys.argv[1]])"
    )
    process = start(limited, config)
    _, stderr = process.communicate(timeout=100)
    assert process.returncode == 2, stderr
    assert stderr.splitlines()[-1].startswith("manyglot: Cannot write")
    assert [path.name for path in (experiment.run / "checkpoints").iterdir()] == ["step-00000003"]
    assert manyglot.train(experiment).model_folder.exists()
