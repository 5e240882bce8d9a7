"""The settings that may change when a run resumes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from manyglot.config.base_settings import is_changeable_on_resume, parse_settings
from manyglot.config.experiment import Experiment
from manyglot.errors import FolderError
from manyglot.training.run_folder import check_resumable, lock_run
from tests.conftest import tiny_experiment

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
    expected = {"data", "run", *(f"training.{name}" for name in TRAINING)}
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
    with lock_run(experiment.run, experiment, "digest"):
        (experiment.run / "checkpoints" / "step-00000001").mkdir(parents=True)
    training = experiment.training
    longer = experiment.model_copy(update={"training": training.model_copy(update={"max_steps": 10**6})})
    check_resumable(experiment.run, longer, "digest")
    faster = experiment.model_copy(update={"training": training.model_copy(update={"learning_rate": 1.0})})
    with pytest.raises(FolderError, match=r"different settings \(training\.learning_rate\)"):
        check_resumable(experiment.run, faster, "digest")
    falling = training.model_copy(update={"lr_schedule": "linear", "max_steps": 10**6})
    with pytest.raises(FolderError, match=r"different settings \(training\.lr_schedule, training\.max_steps\)"):
        check_resumable(experiment.run, experiment.model_copy(update={"training": falling}), "digest")


@pytest.mark.parametrize("name", ["log.jsonl", "config.yaml", "data.sha256"])
def test_a_run_does_not_write_through_a_link(name: str, tmp_path: Path) -> None:
    experiment = tiny_experiment(tmp_path)
    with lock_run(experiment.run, experiment, "digest"):
        pass
    (tmp_path / "private").write_text("mine")
    (experiment.run / name).unlink(missing_ok=True)
    (experiment.run / name).symlink_to(tmp_path / "private")
    with pytest.raises(FolderError, match=rf"{name} is a link to .*private, outside its folder"):
        check_resumable(experiment.run, experiment, "digest")
    assert (tmp_path / "private").read_text() == "mine"
