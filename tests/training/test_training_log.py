from __future__ import annotations

import time
from itertools import islice
from pathlib import Path

import pytest
import torch

from manyglot.batches.loader import BatchLoader, DataPosition
from manyglot.batches.prepared_dataset import PreparedDataset
from manyglot.config.experiment import Experiment
from manyglot.corpus.base import Split
from manyglot.corpus.languages import Languages
from manyglot.distributed import DistributedContext
from manyglot.model.training_cost import training_flops
from manyglot.training import throughput as throughput_module
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
