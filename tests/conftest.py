"""Fixtures and helpers of many tests: a small prepared dataset, small models, random batches."""

from __future__ import annotations

import io
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
import yaml
from hypothesis import settings

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # before anything imports Triton

import manyglot
from manyglot.batches.batch import Batch, collate
from manyglot.batches.prepared_dataset import PreparedDataset
from manyglot.config.base_settings import parse_settings
from manyglot.config.experiment import Experiment
from manyglot.model.guidance.base import MethodSettings
from manyglot.model.packed_executor import packed_forward
from manyglot.model.packing import PackedBatch
from manyglot.model.settings import ModelSettings
from manyglot.model.transformer import Transformer
from manyglot.training.contrastive_alignment import ContrastiveAlignmentSettings
from manyglot.training.loss import BatchLoss, summed_batch_loss

signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell's background job, and its children, ignore
settings.register_profile("manyglot", deadline=None, derandomize=True)
settings.load_profile("manyglot")
torch.set_num_threads(1)  # tiny tensors: more threads only wait for one another

NUM_SUBWORDS, NUM_LANGUAGES = 40, 3


def tiny_experiment(folder: Path, **changes: object) -> Experiment:
    """Make a synthetic experiment that takes seconds."""
    values: dict[str, object] = {
        "data": folder / "data",
        "run": folder / "run",
        "corpus": {"kind": "synthetic", "num_languages": 3, "train_rows": 60, "dev_rows": 8, "test_rows": 8},
        "vocabulary": {"size": 120},
        "batches": {"max_tokens": 300},
        "guidance": [{"method": "token", "side": "source"}],
        "model": {"width": 16, "ffn_width": 32, "num_heads": 2, "num_encoder_layers": 1, "num_decoder_layers": 1},
        "training": {"max_steps": 6, "warmup_steps": 2, "checkpoint_every": 2, "validate_every": 3, "log_every": 1},
        "decoding": {"beam_size": 2, "max_length": 20},
        "evaluation": {"language_identifier": "profile"},
    }
    return parse_settings(Experiment, values | changes)


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    """An experiment that has been prepared and trained for a few steps."""
    experiment = tiny_experiment(tmp_path_factory.mktemp("trained"))
    manyglot.prepare(experiment)
    manyglot.train(experiment)
    return experiment


@pytest.fixture(scope="session")
def dataset(trained: Experiment) -> PreparedDataset:
    return PreparedDataset(trained.data)


@pytest.fixture
def config(trained: Experiment, tmp_path: Path) -> Path:
    """The settings of the trained experiment in a YAML file, with new folders."""
    path = tmp_path / "experiment.yaml"
    values = trained.to_dict() | {"data": str(tmp_path / "data"), "run": str(tmp_path / "run")}
    path.write_text(yaml.safe_dump(values), encoding="utf-8")
    return path


@pytest.fixture
def stdin(monkeypatch: pytest.MonkeyPatch) -> io.BytesIO:
    """Provide the stdin of a command."""
    stream = io.BytesIO()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(stream))
    return stream


def tiny_model(
    guidance: Sequence[MethodSettings] = (), norm: str = "post", seed: int = 0, num_layers: int = 2, **changes: object
) -> Transformer:
    """Make a random float64 model in evaluation mode whose logits differ clearly."""
    torch.manual_seed(seed)
    sizes = parse_settings(
        ModelSettings,
        {
            "width": 16,
            "ffn_width": 32,
            "num_heads": 4,
            "num_encoder_layers": num_layers,
            "num_decoder_layers": num_layers,
            "norm": norm,
            **changes,
        },
    )
    model = Transformer(sizes, guidance, NUM_SUBWORDS, NUM_LANGUAGES).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
        model.embedding.weight *= 2
    return model


def random_batch(model: Transformer, size: int = 5, seed: int = 0) -> Batch:
    """Make a batch of unequal lengths and mixed target languages, with the tags of the model."""
    rng = torch.Generator().manual_seed(seed)

    def sentences() -> list[list[int]]:
        lengths = torch.randint(1, 8, (size,), generator=rng).tolist()
        return [torch.randint(3, NUM_SUBWORDS, (n,), generator=rng).tolist() for n in lengths]

    languages = torch.randint(0, NUM_LANGUAGES, (size,), generator=rng).tolist()
    sides = sentences(), sentences()
    source_languages = torch.randint(0, NUM_LANGUAGES, (size,), generator=rng).tolist()
    return collate(*sides, languages, model.tags_by_language(), source_languages)


def packed_loss(
    model: Transformer,
    batch: PackedBatch,
    label_smoothing: float,
    alignment: ContrastiveAlignmentSettings | None = None,
) -> BatchLoss:
    """Compute the loss of a packed batch in a separate forward pass."""
    return summed_batch_loss(model, batch, packed_forward(model, batch), label_smoothing, alignment)
