from __future__ import annotations

import json
import os
import time
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch

import manyglot
from manyglot.batches.loader import BatchLoader, DataPosition
from manyglot.batches.prepared_dataset import PreparedDataset
from manyglot.config.experiment import Experiment
from manyglot.corpus.base import Split
from manyglot.corpus.languages import Languages
from manyglot.distributed import DistributedContext
from manyglot.errors import FolderError
from manyglot.model.run_models import checkpoint_folder
from manyglot.model.training_cost import training_flops
from manyglot.training import throughput as throughput_module
from manyglot.training import training_log
from manyglot.training.callbacks import CheckpointEvent
from manyglot.training.checkpoint import RunState
from manyglot.training.loss import LossTotals
from manyglot.training.throughput import ThroughputMeter
from manyglot.training.training_log import TrainingLog, read_log
from manyglot.vocabulary.subword_model import PAD
from manyglot.workflows.train import initialize_model
from tests.conftest import tiny_model

CPU = torch.device("cpu")
SUMS = LossTotals(
    label_smoothed=60.0, nll_by_language=[20.0, 30.0], target_tokens_by_language=[10, 20], num_source_tokens=40
)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A fake clock: set the time by assigning to the only element of the list."""
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


def new_log(folder: Path, state: RunState, world_size: int = 1) -> TrainingLog:
    distributed = DistributedContext(CPU, world_size=world_size)
    throughput = ThroughputMeter(tiny_model(), "auto", distributed, state.unlogged_losses)
    return TrainingLog(folder / "log.jsonl", state, Languages(["de", "en"]), throughput)


def test_the_elapsed_time_resumes(tmp_path: Path, clock: list[float]) -> None:
    log = new_log(tmp_path, RunState())
    clock[0] += 10
    log.write_line({"step": 1})
    clock[0] += 10
    log.write_line({"step": 2})
    clock[0] += 1000
    log = new_log(tmp_path, RunState(step=1))
    clock[0] += 5
    log.write_line({"step": 2})
    assert read_log(tmp_path / "log.jsonl") == [{"step": 1, "seconds": 10}, {"step": 2, "seconds": 15}]


def test_throughput_excludes_pauses_and_earlier_processes(tmp_path: Path, clock: list[float]) -> None:
    log = new_log(tmp_path, RunState(step=3, unlogged_losses=LossTotals(5.0, [5.0, 0.0], [6, 0], 7)))
    clock[0] += 2
    with log.pause_throughput():
        clock[0] += 100
    clock[0] += 2
    log.log_training(RunState(step=4), SUMS, 5e-4)
    assert read_log(tmp_path / "log.jsonl")[-1]["tokens_per_second"] == pytest.approx((30 - 6) / 4)
    assert log.progress_note == "loss 2.000, 6 tokens/s, lr 0.0005"


def test_the_mfu_is_logged_if_the_peak_speed_is_known(
    tmp_path: Path, clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tiny_model()
    operations = training_flops(model.settings, model.embedding.num_embeddings, 40, 30)
    monkeypatch.setattr(throughput_module, "bfloat16_peak_flops", lambda device, precision: operations / 3)
    log = new_log(tmp_path, RunState(), world_size=2)
    clock[0] += 6
    log.log_training(RunState(step=1), SUMS, 5e-4)
    assert read_log(tmp_path / "log.jsonl")[-1]["mfu"] == pytest.approx(0.25)
    assert "tokens/s, MFU 25%, lr" in log.progress_note


def test_source_tokens_are_counted_before_loading(trained: Experiment) -> None:
    dataset = PreparedDataset(trained.data)
    tags = initialize_model(trained, dataset).tags_by_language()
    loader = BatchLoader(dataset.token_store(Split.TRAIN), dataset.train_directions, trained.batches, tags, 1)
    for planned, _ in islice(loader.iter_planned_batches(DataPosition()), 3):
        assert planned.num_source_tokens() == int((planned.load().source_BS != PAD).sum())


def test_every_log_line_has_its_elapsed_time(trained: Experiment) -> None:
    seconds = [line["seconds"] for line in read_log(trained.run / "log.jsonl")]
    assert seconds == sorted(seconds)
    assert seconds[0] > 0


TRAINING_LINE: dict[str, Any] = {
    "step": 2,
    "epoch": 0,
    "batch": 2,
    "loss": 1.5,
    "into": {"qaa": {"nll": 1.0, "tokens": 5}},
}


@pytest.mark.parametrize(
    "damaged",
    [
        b'{"step": 2, "lo',
        b"[" * 5000,
        b"\x00\xff",
        b"7",
        b"{}",
        b'{"step": "2"}',
        b'{"step": 2, "dev_nll": "x"}',
        b'{"step": 2, "dev_nll": null}',
        b'{"step": ' + b"9" * 100 + b"}",
        *(json.dumps({**TRAINING_LINE, "into": into}).encode() for into in (None, [], {"qaa": 1}, {"qaa": {}})),
        *(
            json.dumps({key: TRAINING_LINE[key] for key in TRAINING_LINE if key != gone}).encode()
            for gone in ("epoch", "into")
        ),
        json.dumps({**TRAINING_LINE, "loss": {}}).encode(),
    ],
)
def test_a_damaged_line_is_reported_and_skipped(
    damaged: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [{"step": 1, "dev_nll": 3.5}, TRAINING_LINE]
    path = tmp_path / "log.jsonl"
    path.write_bytes(b"\n".join((json.dumps(lines[0]).encode(), damaged, damaged, json.dumps(lines[1]).encode(), b"")))
    assert read_log(path) == lines
    assert capsys.readouterr().err == f"{path}: line 2 and 1 other lines are damaged and skipped.\n"


def test_a_log_that_cannot_be_read_is_ignored(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo(tmp_path / "log.jsonl")
    assert read_log(tmp_path / "log.jsonl") == []
    assert "The log of the run is ignored: " in capsys.readouterr().err


def test_a_resumed_run_repairs_its_log(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(b'{"step": 1}\n\xff\n{"step": 2}\n{"step": 3}\n{"st')
    TrainingLog(path, RunState(step=2), Languages(["qaa"]), None)  # type: ignore[arg-type]
    assert path.read_bytes() == b'{"step": 1}\n{"step": 2}\n'


def test_a_log_on_a_full_disk_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = TrainingLog(tmp_path / "log.jsonl", RunState(), Languages(["qaa"]), None)  # type: ignore[arg-type]
    log.path.unlink()
    log.path.symlink_to("/dev/full")
    with pytest.raises(FolderError, match=r"Cannot write .*log\.jsonl: No space left on device; make room"):
        log.write_line({"step": 1})


def test_the_log_is_durable_before_the_checkpoint_appears(
    trained: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Simulate a power failure right after a checkpoint: only flushed lines survive."""
    experiment = trained.model_copy(update={"run": tmp_path / "run"})
    log, flushed, fsync_path = experiment.run / "log.jsonl", [], training_log.fsync_path

    def remember(path: Path) -> None:
        assert not checkpoint_folder(experiment.run / "checkpoints", read_log(path)[-1]["step"]).exists()
        fsync_path(path)
        flushed.append(path.read_bytes())

    def check(event: CheckpointEvent) -> None:
        assert flushed[-1] == log.read_bytes()
        assert read_log(log)[-1]["step"] == event.step

    monkeypatch.setattr(training_log, "fsync_path", remember)
    manyglot.train(experiment, on_checkpoint=check)
    assert flushed
