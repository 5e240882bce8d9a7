"""No checkpoint comes from damaged data."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import manyglot
from manyglot.config.experiment import Experiment
from manyglot.errors import FolderError
from manyglot.model.run_models import list_checkpoints
from manyglot.training.callbacks import StepEvent
from tests.conftest import tiny_experiment


@pytest.fixture
def experiment(tmp_path: Path) -> Experiment:
    experiment = tiny_experiment(tmp_path)
    manyglot.prepare(experiment)
    return experiment


def exchange_first_tokens(experiment: Experiment) -> Path:
    """Damage the training data so that it still looks valid."""
    path = experiment.data / "store" / "train" / "tokens.npy"
    tokens = np.lib.format.open_memmap(path, mode="r+")
    different = next(i for i in range(1, len(tokens)) if tokens[i] != tokens[0])
    tokens[[0, different]] = tokens[[different, 0]]
    return path


def test_an_array_of_zeros_is_refused_before_training(experiment: Experiment) -> None:
    path = experiment.data / "store" / "train" / "tokens.npy"
    tokens = np.lib.format.open_memmap(path, mode="r+")
    tokens[:] = 0
    with pytest.raises(FolderError, match=rf"{path} is damaged \(it has ids that are not subwords\)"):
        manyglot.train(experiment)
    assert not experiment.run.exists()


def test_damaged_data_stops_training_before_the_first_checkpoint(experiment: Experiment) -> None:
    path = exchange_first_tokens(experiment)
    with pytest.raises(FolderError, match=rf"{path} is damaged \(its checksum is wrong\).*prepare it again"):
        manyglot.train(experiment)
    assert not list_checkpoints(experiment.run / "checkpoints")
    assert not (experiment.run / "model").exists()
    exchange_first_tokens(experiment)
    manyglot.train(experiment)


def test_damaged_data_stops_a_resumed_run(experiment: Experiment) -> None:
    def stop(event: StepEvent) -> None:
        if event.step == 3:
            event.request_stop()

    with pytest.raises(manyglot.ManyglotError, match="Stopped at step 3"):
        manyglot.train(experiment, on_step=stop)
    checkpoints = list_checkpoints(experiment.run / "checkpoints")
    exchange_first_tokens(experiment)
    with pytest.raises(FolderError, match="checksum is wrong"):
        manyglot.train(experiment)
    assert list_checkpoints(experiment.run / "checkpoints") == checkpoints
    exchange_first_tokens(experiment)
    assert manyglot.train(experiment).training_info["steps"] == 6
