"""Rewording messages cannot change a resumed run.

The second part of a run is trained with every message, label and help text replaced. It must equal the uninterrupted
run bit for bit, and nothing that a run stores may be prose.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import manyglot
import tests
from manyglot.config.experiment import Experiment
from manyglot.training.training_log import read_log
from tests.conftest import tiny_experiment
from tests.rewording import WORD

TRAINING = {
    "max_steps": 12,
    "warmup_steps": 3,
    "checkpoint_every": 3,
    "validate_every": 2,
    "log_every": 2,
    "keep_best_checkpoints": 2,
    "patience": 50,
}
MODEL = {"width": 16, "ffn_width": 32, "num_heads": 2, "num_encoder_layers": 1, "num_decoder_layers": 1, "dropout": 0.3}
STOPPED_AT = 6
"""A step that both runs log, validate and save."""
TRAIN = """
import sys
from tests import rewording
rewording.install()
from manyglot.cli import main
main(["train", sys.argv[1]])
"""
IDENTIFIER = re.compile(r"[a-zA-Z0-9_.:>|,/-]*")
FREE_TEXT = {"dropped_examples", "provenance"}
"""Keys of dataset.json that hold text and settings of the user."""


def prepared(folder: Path, **training: object) -> Experiment:
    experiment = tiny_experiment(folder, model=MODEL, training={**TRAINING, **training})
    manyglot.prepare(experiment)
    return experiment


def train_reworded(experiment: Experiment) -> str:
    """Train in a process with reworded messages; return its stderr."""
    config = experiment.run.parent / "experiment.yaml"
    config.write_text(yaml.safe_dump(experiment.to_dict()), encoding="utf-8")
    path = os.pathsep.join([str(Path(tests.__file__).parents[1]), *sys.path])
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": path}
    done = subprocess.run(
        [sys.executable, "-c", TRAIN, str(config)], capture_output=True, text=True, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stderr


def log_of(experiment: Experiment) -> list[dict[str, Any]]:
    """Return the log without values that depend on the clock."""
    clock = {"tokens_per_second", "seconds", "validation"}
    return [
        {key: value for key, value in line.items() if key not in clock}
        for line in read_log(experiment.run / "log.jsonl")
    ]


@pytest.mark.parametrize("best_metric", ["dev_nll", "dev_chrf", "zero_shot_language_accuracy"])
def test_a_run_resumed_with_reworded_messages_equals_the_uninterrupted_run(best_metric: str, tmp_path: Path) -> None:
    whole, broken = (prepared(tmp_path / name, best_metric=best_metric) for name in ("whole", "broken"))
    manyglot.train(whole)
    first_part = broken.training.model_copy(update={"max_steps": STOPPED_AT})
    shutil.rmtree(manyglot.train(broken.model_copy(update={"training": first_part})).model_folder)
    said = train_reworded(broken)
    assert f"{WORD} {WORD} {WORD} {STOPPED_AT}." in said, "Resuming from step 6."
    assert "step" not in said.replace("--", "").split(), "every message is reworded"

    for file in ("model/model.safetensors", "model/training.json"):
        assert (broken.run / file).read_bytes() == (whole.run / file).read_bytes()
    checkpoint_names = [sorted(path.name for path in (each.run / "checkpoints").iterdir()) for each in (whole, broken)]
    assert checkpoint_names[0] == checkpoint_names[1]
    for name in checkpoint_names[0]:
        for file in ("model.safetensors", "optimizer.safetensors", "progress.json"):
            expected, got = (each.run / "checkpoints" / name / file for each in (whole, broken))
            assert got.read_bytes() == expected.read_bytes(), f"{name}/{file}"
    assert log_of(broken) == log_of(whole)


def strings_of(value: Any, free: frozenset[str] = frozenset()) -> Iterator[str]:
    """Yield every key and every string of a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, inside in value.items():
            yield key
            if key not in free:
                yield from strings_of(inside, free)
    elif isinstance(value, list):
        for inside in value:
            yield from strings_of(inside, free)


def test_a_run_stores_only_identifiers(tmp_path: Path) -> None:
    experiment = prepared(tmp_path, best_metric="zero_shot_language_accuracy")
    model = manyglot.train(experiment).model_folder
    stored = {
        "log": read_log(experiment.run / "log.jsonl"),
        "training": json.loads((model / "training.json").read_text("utf-8")),
        "dataset": json.loads((experiment.data / "dataset.json").read_text("utf-8")),
    }
    for path in (experiment.run / "checkpoints").glob("*/*.json"):
        stored[str(path)] = json.loads(path.read_text("utf-8"))
    assert len(stored) >= 3 + 2 * 2, "two files of at least two checkpoints"
    for name, value in stored.items():
        prose = [text for text in strings_of(value, frozenset(FREE_TEXT)) if not IDENTIFIER.fullmatch(text)]
        assert not prose, name
    assert stored["training"]["measured_on"]["identifier"] == "profile"
