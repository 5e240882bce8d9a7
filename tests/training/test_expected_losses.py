"""Tiny trainings reach stored losses: every guidance method, 20 updates in float64 on the CPU, without dropout.

`test_trainer.py` and `test_resume.py` compare a run with its interrupted twin. A change that shifts both alike shows
only here. `expected_losses.json` has the loss vector of each update (`BatchLoss.to_vector`): the label-smoothed loss,
the negative log-likelihood by target language and, if the encoder is aligned, the alignment loss. It also has a hash of
each batch. The first value that differs points to the cause:

- a batch: the text, the subword model, or the sampling and order of the data
- the losses of the first update: packing, initial weights, forward pass or loss
- the losses of later updates only: backward pass, optimizer or schedule

This command stores new values:

    .venv/bin/python -m tests.training.test_expected_losses

Run it after a change that is meant to train models differently, or after adding a method or a run. Give the reason in
the commit message, and check in the diff that no other run changes. Never run it to make a refactoring, a faster
implementation or the upgrade of a library pass.

Threads, instruction sets and the order of sums change only the last digits of float64, far below the tolerance. The
values do depend on the random numbers of PyTorch's CPU generator, which initialize the weights, on those of Python,
which make the text, and on the subwords that SentencePiece learns.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from zlib import crc32

import numpy as np
import pytest
import torch

import manyglot
from manyglot.batches.loader import BatchLoader, DataPosition
from manyglot.batches.prepared_dataset import PreparedDataset
from manyglot.config.base_settings import parse_settings
from manyglot.config.experiment import Experiment
from manyglot.corpus.base import Split
from manyglot.errors import StoppedByUser
from manyglot.model.guidance import METHODS, build_guidance, method_name, parse_method_settings
from manyglot.model.guidance.base import ModelDimensions
from manyglot.training.callbacks import StepEvent
from manyglot.vocabulary.vocabulary import LanguageTags

EXPECTED_LOSSES = Path(__file__).with_name("expected_losses.json")
RELATIVE_TOLERANCE, NUM_STORED_DIGITS = 1e-9, 13
NUM_STEPS, NUM_LANGUAGES, WIDTH = 20, 3, 16

MODEL: dict[str, Any] = {
    "width": WIDTH,
    "ffn_width": 32,
    "num_heads": 2,
    "num_encoder_layers": 1,
    "num_decoder_layers": 1,
    "dropout": 0.0,
}
ALIGNMENT = {"every_nth_pair": 2}
TRAINING: dict[str, Any] = {
    "max_steps": NUM_STEPS,
    "warmup_steps": 4,
    "learning_rate": 0.01,
    "alignment": None,
    "precision": "float32",  # no autocast; `float64_by_default` makes the weights float64
    "device": "cpu",
}
EXPERIMENT: dict[str, Any] = {
    "corpus": {"kind": "synthetic", "num_languages": NUM_LANGUAGES, "train_rows": 60, "dev_rows": 0, "test_rows": 0},
    "vocabulary": {"size": 120},
    "batches": {"max_tokens": 300},
    "model": MODEL,
    "training": TRAINING,
}
GUIDANCE: dict[str, list[dict[str, Any]]] = {
    "token_src": [{"method": "token"}],
    "token_tgt": [{"method": "token", "side": "target"}],
    "lee": [{"method": "lee"}],
    "laa": [{"method": "laa"}],
    "adapter": [{"method": "adapter", "placement": "after_residual"}],
    "adapter before the residual": [{"method": "adapter"}],
    "laln": [{"method": "laln"}],
    "lalt": [{"method": "lalt"}],
    "laa + lee": [{"method": "laa", "init_gain": 1.0}, {"method": "lee"}],
    "laln + lalt": [{"method": "laln"}, {"method": "lalt"}],
    "low-rank laa + adapter": [{"method": "laa", "rank": 3}, {"method": "adapter", "rank": 2}],
    "token_src + random_laa": [{"method": "token"}, {"method": "random_laa", "init_gain": 1.0}],
}
OTHER_SETTINGS: dict[str, Any] = {
    "guidance": GUIDANCE["laa"],
    "batches": {"max_tokens": 150, "bucket_by": "both", "target_weights": {"qaa": 0.5}},
    "model": {**MODEL, "norm": "pre"},
    "training": {
        **TRAINING,
        "gradient_accumulation": 2,
        "max_grad_norm": 0.5,
        "lr_schedule": "cosine",
        "alignment": ALIGNMENT,
    },
}
PLAIN_RUN, OTHER_SETTINGS_RUN = "token_src, post-norm", "other settings"
RUNS_WITH_HASHED_BATCHES = (PLAIN_RUN, OTHER_SETTINGS_RUN)


def affects_encoder(guidance: list[dict[str, Any]]) -> bool:
    dimensions = ModelDimensions(WIDTH, 1, 1, NUM_LANGUAGES, first_tag_id=0)
    return build_guidance(map(parse_method_settings, guidance), dimensions).affects_encoder


def settings_by_run() -> dict[str, dict[str, Any]]:
    """Return the settings of each run that differ from EXPERIMENT."""
    norms: dict[str, dict[str, Any]] = {"post-norm": {}, "pre-norm": {"model": {**MODEL, "norm": "pre"}}}
    aligned = {"training": {**TRAINING, "alignment": ALIGNMENT}}
    runs: dict[str, dict[str, Any]] = {}
    for name, methods in GUIDANCE.items():
        runs |= {f"{name}, {norm}": {"guidance": methods, **settings} for norm, settings in norms.items()}
        if not affects_encoder(methods):
            runs[f"{name}, aligned"] = {"guidance": methods, **aligned}
    return runs | {OTHER_SETTINGS_RUN: OTHER_SETTINGS}


SETTINGS_BY_RUN = settings_by_run()


def experiment_of_run(name: str, folder: Path, data: Path) -> Experiment:
    return parse_settings(Experiment, {**EXPERIMENT, **SETTINGS_BY_RUN[name], "run": folder / "run", "data": data})


@contextmanager
def float64_by_default() -> Iterator[None]:
    """Create tensors as float64. PyTorch fills float32 tensors with other random numbers on CPUs without AVX2."""
    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(default)


class LastUpdate(Exception):
    """Ends a training after its last update, because saving the model takes time and changes no loss."""


def train(experiment: Experiment, stop_after: int = NUM_STEPS) -> list[list[float]]:
    """Train, and return the loss vector of each update. A training that stops early can be resumed."""
    losses: list[list[float]] = []

    def record(event: StepEvent) -> None:
        losses.append(event.loss_vector.tolist())
        if event.step == NUM_STEPS:
            raise LastUpdate
        if event.step == stop_after:
            event.request_stop()

    with float64_by_default(), pytest.raises((LastUpdate, StoppedByUser)):
        manyglot.train(experiment, on_step=record)
    return losses


def assert_equal_losses(losses: list[list[float]], expected: list[list[float]]) -> None:
    message = "The docstring of this file explains the values. The indices are [update, loss], from 0."
    np.testing.assert_allclose(losses, expected, rtol=RELATIVE_TOLERANCE, atol=0, err_msg=message)


def hash_batches(experiment: Experiment) -> list[int]:
    """Hash the batches of a run, without language tags."""
    dataset, tags = PreparedDataset(experiment.data), [LanguageTags()] * NUM_LANGUAGES
    store, directions = dataset.token_store(Split.TRAIN), dataset.train_directions
    batches = BatchLoader(store, directions, experiment.batches, tags, experiment.seed).iter_batches(DataPosition())
    num_batches = NUM_STEPS * experiment.training.gradient_accumulation
    return [
        crc32(b"".join(ids.long().numpy().tobytes() for ids in (batch.source_BS, batch.input_BT, batch.lang_B)))
        for batch, _ in islice(batches, num_batches)
    ]


def prepare(folder: Path) -> Path:
    manyglot.prepare(experiment_of_run(PLAIN_RUN, folder, folder / "data"))
    return folder / "data"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return prepare(tmp_path_factory.mktemp("expected_losses"))


@pytest.fixture(scope="module")
def expected() -> dict[str, Any]:
    values: dict[str, Any] = json.loads(EXPECTED_LOSSES.read_text("utf-8"))
    return values


def test_every_method_has_expected_losses(expected: dict[str, Any]) -> None:
    assert expected["losses"].keys() == SETTINGS_BY_RUN.keys()
    trained = {settings["method"] for methods in GUIDANCE.values() for settings in methods}
    assert trained == {method_name(method) for method in METHODS}, "add the missing methods to GUIDANCE"


@pytest.mark.parametrize("run", RUNS_WITH_HASHED_BATCHES)
def test_batches_equal_the_expected_ones(run: str, expected: dict[str, Any], data: Path, tmp_path: Path) -> None:
    assert hash_batches(experiment_of_run(run, tmp_path, data)) == expected["batches"][run]


@pytest.mark.parametrize("run", SETTINGS_BY_RUN)
def test_losses_equal_the_expected_ones(run: str, expected: dict[str, Any], data: Path, tmp_path: Path) -> None:
    assert_equal_losses(train(experiment_of_run(run, tmp_path, data)), expected["losses"][run])


@pytest.mark.parametrize("run", ["laa + lee, aligned", "token_src + random_laa, pre-norm"])
def test_losses_of_a_resumed_run_equal_the_expected_ones(
    run: str, expected: dict[str, Any], data: Path, tmp_path: Path
) -> None:
    experiment = experiment_of_run(run, tmp_path, data)
    assert_equal_losses(train(experiment, stop_after=7) + train(experiment), expected["losses"][run])


def format_values(values_by_run: dict[str, list[Any]]) -> str:
    """Format a JSON object of lists with one element per line, for a readable diff."""
    runs = (
        f"{json.dumps(run)}: [\n    " + ",\n    ".join(map(json.dumps, values)) + "\n  ]"
        for run, values in values_by_run.items()
    )
    return "{\n  " + ",\n  ".join(runs) + "\n  }"


def write_expected_losses(path: Path = EXPECTED_LOSSES) -> None:
    """Train all runs and store their batches and losses."""
    with TemporaryDirectory() as name:
        data = prepare(Path(name))
        experiments = {run: experiment_of_run(run, Path(name) / str(i), data) for i, run in enumerate(SETTINGS_BY_RUN)}
        batches = {run: hash_batches(experiments[run]) for run in RUNS_WITH_HASHED_BATCHES}
        losses = {
            run: [[float(f"{value:.{NUM_STORED_DIGITS}g}") for value in vector] for vector in train(experiment)]
            for run, experiment in experiments.items()
        }
    path.write_text(f'{{\n"batches": {format_values(batches)},\n"losses": {format_values(losses)}\n}}\n', "utf-8")


if __name__ == "__main__":
    write_expected_losses()
