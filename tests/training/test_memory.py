"""Too little memory is told in a line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from manyglot import workflow
from manyglot.config import Experiment
from manyglot.errors import ManyglotError
from manyglot.training import loop, trial
from tests.conftest import tiny_experiment

BOTH: list[Callable[[Experiment], object]] = [workflow.forecast, workflow.train]


@pytest.fixture
def experiment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Experiment:
    monkeypatch.setattr(trial, "MOST", 1)
    experiment = tiny_experiment(tmp_path, batches={"max_tokens": 2000})
    workflow.prepare(experiment)
    return experiment


def full_gpu(*_: object) -> None:
    raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate")


def full_cpu(*_: object) -> None:
    torch.empty(2**50)


def full_numpy(*_: object) -> None:
    np.empty(2**50)


@pytest.mark.parametrize("fail", [full_gpu, full_cpu, full_numpy])
@pytest.mark.parametrize("begin", BOTH)
def test_a_step_that_did_not_fit_is_told_in_a_line(
    begin: Callable[[Experiment], object],
    fail: Callable[..., None],
    experiment: Experiment,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for module in (trial, loop):
        monkeypatch.setattr(module, "accumulate", fail)
    with pytest.raises(ManyglotError, match=r"does not fit into the memory of cpu\. Lower batches\.max_tokens"):
        begin(experiment)


def test_other_errors_are_left_alone(experiment: Experiment, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("shapes differ")

    monkeypatch.setattr(trial, "accumulate", fail)
    with pytest.raises(RuntimeError, match="shapes differ"):
        workflow.forecast(experiment)
