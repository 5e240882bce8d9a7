"""The settings that may change when a run resumes."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from manyglot.config.base_settings import is_changeable_on_resume, parse_settings
from manyglot.config.experiment import Experiment
from manyglot.errors import FolderError
from manyglot.model.guidance.adapter import AdapterSettings
from manyglot.model.model_folder import load_model
from manyglot.training.run_folder import check_resumable, lock_run
from tests.conftest import tiny_experiment
from tests.model.run_folders import RunMaker
from tests.model.run_folders import make_run as make_run

CORPORA = [
    {"kind": "synthetic"},
    {"kind": "phrasebook", "languages": ["de", "en"]},
    *({"kind": k, "path": "x"} for k in ("multiway", "bilingual", "table")),
]
TRAINING = {
    "device",
    "fsdp",
    "log_every",
    "validate_every",
    "best_metric",
    "patience",
    "checkpoint_every",
    "keep_last_checkpoints",
    "keep_best_checkpoints",
    "trackers",
}
DIGEST = "5" * 64
SECTIONS = ("validation", "decoding", "evaluation")


def names_of(values: Mapping[str, Any], section: str = "") -> Iterator[str]:
    for key, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from names_of(value, f"{section}{key}.")
        else:
            yield f"{section}{key}"


@pytest.mark.parametrize("schedule", ["inverse_square_root", "constant", "cosine", "linear"])
@pytest.mark.parametrize("corpus", CORPORA, ids=lambda corpus: corpus["kind"])
def test_only_these_settings_may_change_on_resume(corpus: dict[str, Any], schedule: str) -> None:
    training = {"lr_schedule": schedule, "alignment": {}}
    experiment = parse_settings(Experiment, {"data": "data", "run": "run", "corpus": corpus, "training": training})
    names = set(names_of(experiment.to_dict()))
    expected = {"data", "run", "corpus.license", *(f"training.{name}" for name in TRAINING)}
    expected |= {name for name in names if name.startswith(SECTIONS)}
    expected |= {"corpus.path"} if "path" in corpus else set()
    expected |= {"training.max_steps"} if schedule in ("inverse_square_root", "constant") else set()
    assert {name for name in names if is_changeable_on_resume(experiment, name)} == expected


def test_an_unknown_setting_inherits_from_its_section(tmp_path: Path) -> None:
    experiment = tiny_experiment(tmp_path)
    assert is_changeable_on_resume(experiment, "decoding.gone")
    assert not is_changeable_on_resume(experiment, "training.gone")
    assert not is_changeable_on_resume(experiment, "gone")
    assert not is_changeable_on_resume(experiment, "seed.gone")


def test_a_run_resumes_only_with_allowed_changes(tmp_path: Path) -> None:
    experiment = tiny_experiment(tmp_path)
    with lock_run(experiment.run, experiment, DIGEST):
        (experiment.run / "checkpoints" / "step-00000001").mkdir(parents=True)
    training = experiment.training
    longer = experiment.model_copy(update={"training": training.model_copy(update={"max_steps": 10**6})})
    check_resumable(experiment.run, longer, DIGEST)
    faster = experiment.model_copy(update={"training": training.model_copy(update={"learning_rate": 1.0})})
    with pytest.raises(FolderError, match=r"different settings \(training\.learning_rate\)"):
        check_resumable(experiment.run, faster, DIGEST)
    falling = training.model_copy(update={"lr_schedule": "linear", "max_steps": 10**6})
    with pytest.raises(FolderError, match=r"different settings \(training\.lr_schedule, training\.max_steps\)"):
        check_resumable(experiment.run, experiment.model_copy(update={"training": falling}), DIGEST)


@pytest.fixture
def started(make_run: RunMaker, trained: Experiment) -> tuple[Path, Experiment, str]:
    """A run with a checkpoint, its settings and the digest of its data."""
    run = make_run(2)
    experiment = parse_settings(Experiment, load_model(trained.run / "model").config)
    return run, experiment, (run / "data.sha256").read_text().strip()


def test_a_run_that_was_started_before_a_setting_existed_resumes(make_run: RunMaker, trained: Experiment) -> None:
    saved = {"guidance": [AdapterSettings().model_dump(mode="json", exclude={"rank"})]}
    run = make_run(2, changes=saved)
    digest = (run / "data.sha256").read_text().strip()
    values = load_model(trained.run / "model").config
    for change in ({}, {"rank": None}, {"rank": 4}, {"sites": ["enc.ffn"]}):
        methods = [{"method": "adapter", "sites": ["dec.ffn"], **change}]
        experiment = parse_settings(Experiment, {**values, "guidance": methods})
        if change in ({}, {"rank": None}):
            check_resumable(run, experiment, digest)
            continue
        with pytest.raises(FolderError, match=r"different settings \(guidance\)"):
            check_resumable(run, experiment, digest)


@pytest.mark.parametrize("damage", ["missing", "truncated", "nonsense", "pipe"])
def test_a_damaged_config_does_not_prevent_resuming(started: tuple[Path, Experiment, str], damage: str) -> None:
    """The settings of the newest intact checkpoint count."""
    run, experiment, digest = started
    text = (run / "config.yaml").read_text()
    (run / "config.yaml").unlink()
    match damage:
        case "truncated":
            (run / "config.yaml").write_text(text[: text.index("seed")])
        case "nonsense":
            (run / "config.yaml").write_bytes(b"\x00\xff")
        case "pipe":
            os.mkfifo(run / "config.yaml")
    check_resumable(run, experiment, digest)
    with pytest.raises(FolderError, match=r"different settings \(seed\)"):
        check_resumable(run, experiment.model_copy(update={"seed": 9}), digest)


def test_a_pipe_in_the_place_of_the_config_does_not_block(tmp_path: Path) -> None:
    experiment = tiny_experiment(tmp_path)
    experiment.run.mkdir()
    os.mkfifo(experiment.run / "config.yaml")
    with (
        pytest.raises(FolderError, match=r"config\.yaml is not a file\. Delete it"),
        lock_run(experiment.run, experiment, DIGEST),
    ):
        pass


def test_settings_come_from_an_intact_checkpoint(started: tuple[Path, Experiment, str]) -> None:
    run, experiment, digest = started
    (config,) = (run / "checkpoints").glob("*/config.yaml")
    config.write_text(config.read_text().replace("seed: 1\n", "seed: 9\n"))
    check_resumable(run, experiment, digest)
    (run / "config.yaml").write_text("[")
    with pytest.raises(FolderError, match=r"config\.yaml.*No intact checkpoint has the settings either\. Set `run`"):
        check_resumable(run, experiment, digest)


def test_the_data_of_a_run_is_compared(
    started: tuple[Path, Experiment, str], capsys: pytest.CaptureFixture[str]
) -> None:
    run, experiment, digest = started
    check_resumable(run, experiment, digest)
    with pytest.raises(FolderError, match="was trained on different data"):
        check_resumable(run, experiment, DIGEST)
    for damaged in (b"", digest[:-1].encode(), b"\xff" * 64):
        (run / "data.sha256").write_bytes(damaged)
        with pytest.raises(
            FolderError, match=r"data\.sha256 is damaged\. If you are sure .* delete this file to resume"
        ):
            check_resumable(run, experiment, digest)
    (run / "data.sha256").unlink()
    check_resumable(run, experiment, digest)
    assert "data.sha256 is missing, so the data is not compared" in capsys.readouterr().err


def test_files_of_a_run_are_replaced_atomically(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    experiment = tiny_experiment(tmp_path)
    with lock_run(experiment.run, experiment, DIGEST):
        before = {path.name: path.read_text() for path in experiment.run.iterdir()}

    def fail(path: Path) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("manyglot.files.fsync_path", fail)
    other = experiment.model_copy(update={"seed": 2})
    with (
        pytest.raises(FolderError, match=r"Cannot write to .*run: No space left on device; make room"),
        lock_run(experiment.run, other, "6" * 64),
    ):
        pass
    assert {path.name: path.read_text() for path in experiment.run.iterdir()} == before


@pytest.mark.parametrize("name", ["log.jsonl", "config.yaml", "data.sha256"])
def test_a_run_does_not_write_through_a_link(name: str, tmp_path: Path) -> None:
    experiment = tiny_experiment(tmp_path)
    with lock_run(experiment.run, experiment, DIGEST):
        pass
    (tmp_path / "private").write_text("mine")
    (experiment.run / name).unlink(missing_ok=True)
    (experiment.run / name).symlink_to(tmp_path / "private")
    with pytest.raises(FolderError, match=rf"{name} is a link to .*private, outside its folder"):
        check_resumable(experiment.run, experiment, DIGEST)
    assert (tmp_path / "private").read_text() == "mine"


def test_a_run_that_was_killed_before_its_settings_were_written_starts_again(tmp_path: Path) -> None:
    experiment = tiny_experiment(tmp_path)
    run = experiment.run
    run.mkdir(parents=True)
    (run / "config.yaml.unfinished").write_text("guid")
    check_resumable(run, experiment, DIGEST)
    (run / "other").touch()
    with pytest.raises(FolderError, match="is not a run folder"):
        check_resumable(run, experiment, DIGEST)
