"""Which settings may change when a run resumes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from manyglot.config.experiment import Experiment
from manyglot.config.settings import is_resumable, parse
from manyglot.errors import FolderError
from manyglot.training.claim import check_run, claimed_run
from tests.conftest import tiny_experiment

CORPORA = [
    {"kind": "synthetic"},
    {"kind": "phrasebook", "languages": ["de", "en"]},
    *({"kind": k, "path": "x"} for k in ("multiway", "pairs", "table")),
]
TRAINING = {
    "device",
    "shard",
    "log_every",
    "validate_every",
    "best_by",
    "patience",
    "checkpoint_every",
    "keep_checkpoints",
    "keep_best",
    "trackers",
}
SECTIONS = ("validation", "decoding", "evaluation")


def names_of(values: Mapping[str, Any], section: str = "") -> Iterator[str]:
    for key, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from names_of(value, f"{section}{key}.")
        else:
            yield f"{section}{key}"


@pytest.mark.parametrize("schedule", ["inverse_square_root", "constant", "cosine", "linear"])
@pytest.mark.parametrize("corpus", CORPORA, ids=lambda corpus: corpus["kind"])
def test_these_settings_may_change_and_no_others(corpus: dict[str, Any], schedule: str) -> None:
    training = {"schedule": schedule, "alignment": {}}
    experiment = parse(Experiment, {"data": "data", "run": "run", "corpus": corpus, "training": training})
    names = set(names_of(experiment.resolved()))
    expected = {"data", "run", *(f"training.{name}" for name in TRAINING)}
    expected |= {name for name in names if name.startswith(SECTIONS)}
    expected |= {"corpus.path"} if "path" in corpus else set()
    expected |= {"training.max_steps"} if schedule in ("inverse_square_root", "constant") else set()
    assert {name for name in names if is_resumable(experiment, name)} == expected


def test_a_setting_that_is_gone_counts_as_its_section_does(tmp_path: Path) -> None:
    experiment = tiny_experiment(tmp_path)
    assert is_resumable(experiment, "decoding.gone")
    assert not is_resumable(experiment, "training.gone")
    assert not is_resumable(experiment, "gone")
    assert not is_resumable(experiment, "seed.gone")


def test_a_run_resumes_only_with_changes_that_are_allowed(tmp_path: Path) -> None:
    experiment = tiny_experiment(tmp_path)
    with claimed_run(experiment.run, experiment, "digest"):
        (experiment.run / "checkpoints" / "step-00000001").mkdir(parents=True)
    training = experiment.training
    longer = experiment.model_copy(update={"training": training.model_copy(update={"max_steps": 10**6})})
    check_run(experiment.run, longer, "digest")
    faster = experiment.model_copy(update={"training": training.model_copy(update={"learning_rate": 1.0})})
    with pytest.raises(FolderError, match=r"other settings \(training\.learning_rate\)"):
        check_run(experiment.run, faster, "digest")
    falling = training.model_copy(update={"schedule": "linear", "max_steps": 10**6})
    with pytest.raises(FolderError, match=r"other settings \(training\.max_steps, training\.schedule\)"):
        check_run(experiment.run, experiment.model_copy(update={"training": falling}), "digest")
