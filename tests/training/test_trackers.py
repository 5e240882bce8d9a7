from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import manyglot
from manyglot.config.experiment import Experiment
from manyglot.errors import ManyglotError, SettingsError
from manyglot.training import trainer
from manyglot.training.trackers import check_trackers_installed, flatten_metrics, open_trackers
from manyglot.training.training_log import read_log
from tests.conftest import tiny_experiment

TRAINING = {"max_steps": 5, "warmup_steps": 2, "checkpoint_every": 2, "validate_every": 3, "log_every": 1}


def train_interrupted_and_resumed(experiment: Experiment, monkeypatch: pytest.MonkeyPatch) -> None:
    """Train, interrupt after step 3 is logged and step 2 saved, and resume."""

    def fail(*_: object) -> None:
        raise KeyboardInterrupt

    manyglot.prepare(experiment)
    with monkeypatch.context() as patch:
        patch.setattr(trainer, "_validate_and_update_best", fail)
        with pytest.raises(KeyboardInterrupt):
            manyglot.train(experiment)
    assert read_log(experiment.run / "log.jsonl")[-1]["step"] == 3
    manyglot.train(experiment)


def expected(experiment: Experiment) -> dict[str, list[tuple[int, float]]]:
    """Return the curves in the log."""
    curves: dict[str, list[tuple[int, float]]] = {}
    for line in read_log(experiment.run / "log.jsonl"):
        for name, value in flatten_metrics(line).items():
            curves.setdefault(name, []).append((line["step"], value))
    return curves


def test_nested_metrics_are_flattened() -> None:
    line = {"step": 3, "loss": 2.5, "into": {"de": {"nll": 2.0, "tokens": 7}}, "best": "yes"}
    assert flatten_metrics(line) == {"loss": 2.5, "into/de/nll": 2.0, "into/de/tokens": 7}


@pytest.mark.parametrize("name", ["tensorboard", "wandb"])
def test_a_missing_tracker_is_reported_before_training(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    experiment = tiny_experiment(tmp_path, training={**TRAINING, "trackers": [name]})
    manyglot.prepare(experiment)
    with pytest.raises(ManyglotError, match=rf"training\.trackers: {name} is not .* pip install 'manyglot\[{name}\]'"):
        manyglot.train(experiment)
    assert not experiment.run.exists()


def test_an_unknown_tracker_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"training\.trackers.*should be 'tensorboard' or 'wandb', got 'tb'"):
        tiny_experiment(tmp_path, training={"trackers": ["tb"]})


def test_tensorboard_has_each_step_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    experiment = tiny_experiment(tmp_path, training={**TRAINING, "trackers": ["tensorboard"]})
    train_interrupted_and_resumed(experiment, monkeypatch)
    events = EventAccumulator(str(experiment.run / "tensorboard"))
    events.Reload()
    shown = {tag: [(e.step, e.value) for e in events.Scalars(tag)] for tag in events.Tags()["scalars"]}
    curves = expected(experiment)
    assert shown.keys() == curves.keys() >= {"loss", "learning_rate", "dev_nll", "into/qab/nll"}
    for name, points in curves.items():
        assert [step for step, _ in shown[name]] == [step for step, _ in points]
        assert [value for _, value in shown[name]] == pytest.approx([value for _, value in points], rel=1e-5)


class FakeWandB(SimpleNamespace):
    """Replaces wandb and its server: stores runs by id, and resumes a run after its last step."""

    class Error(Exception):
        pass

    def __init__(self) -> None:
        super().__init__(started=[], rows={}, finished=0)

    def init(self, **given: Any) -> SimpleNamespace:
        self.started.append(given)
        rows = self.rows.setdefault(given["id"], [])
        run = SimpleNamespace(step=max((step for step, _ in rows), default=-1) + 1)

        def log(numbers: dict[str, float], step: int) -> None:
            assert step >= run.step, "wandb ignores earlier steps"
            run.step = step
            rows.append((step, numbers))

        def finish() -> None:
            self.finished += 1

        run.log, run.finish = log, finish
        return run


def test_wandb_resumes_the_same_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeWandB()
    monkeypatch.setitem(sys.modules, "wandb", fake)
    monkeypatch.setenv("WANDB_PROJECT", "mine")
    experiment = tiny_experiment(tmp_path, training={**TRAINING, "trackers": ["wandb"]})
    train_interrupted_and_resumed(experiment, monkeypatch)
    first, second = fake.started
    assert first["id"] == second["id"]
    assert (first["project"], first["name"], first["resume"]) == ("mine", "run", "allow")
    assert first["config"]["model"]["width"] == 16
    ((_, rows),) = fake.rows.items()
    assert [step for step, numbers in rows if "loss" in numbers] == [1, 2, 3, 4, 5]
    assert [step for step, numbers in rows if "dev_nll" in numbers] == [5], "step 3 was logged without scores"
    assert fake.finished == 2


def test_a_restarted_run_is_a_new_wandb_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeWandB()
    monkeypatch.setitem(sys.modules, "wandb", fake)
    (tmp_path / "config.yaml").write_text("seed: 1\n")
    for step in (0, 0, 7):
        with open_trackers(["wandb"], tmp_path, step):
            pass
    ids = [given["id"] for given in fake.started]
    assert ids[0] != ids[1] == ids[2] == json.loads((tmp_path / "wandb.json").read_text("utf-8"))["id"]


def test_a_wandb_error_is_reported_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeWandB()

    def refuse(**_: object) -> None:
        raise fake.Error("api_key not configured.\nRun wandb login.")

    fake.init = refuse
    monkeypatch.setitem(sys.modules, "wandb", fake)
    (tmp_path / "config.yaml").write_text("seed: 1\n")
    check_trackers_installed(["wandb"])
    with (
        pytest.raises(ManyglotError, match=r"^Weights & Biases: api_key not configured\. Run wandb login\. Fix"),
        open_trackers(["wandb"], tmp_path, 0),
    ):
        pass


def test_only_the_main_process_has_trackers(
    trained: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[str, ...]] = []
    original = trainer.open_trackers

    def remembered(names: tuple[Any, ...], run: Path, step: int) -> Any:
        seen.append(names)
        return original((), run, step)

    monkeypatch.setattr(trainer, "open_trackers", remembered)
    monkeypatch.setitem(sys.modules, "wandb", FakeWandB())
    experiment = tiny_experiment(tmp_path, training={**TRAINING, "max_steps": 1, "trackers": ["wandb"]})
    manyglot.prepare(experiment)
    for is_main in (True, False):
        monkeypatch.setattr("manyglot.distributed.DistributedContext.is_main", is_main)
        manyglot.train(experiment.model_copy(update={"run": tmp_path / str(is_main)}))
    assert seen == [("wandb",), ()]


@pytest.mark.parametrize("content", ["", "{}", '{"id": 7}', "[1]", '{"id": "\\u0000'])
def test_a_damaged_id_of_wandb_is_one_line(content: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wandb", FakeWandB())
    (tmp_path / "wandb.json").write_text(content)
    with pytest.raises(ManyglotError, match=r"wandb\.json is damaged"), open_trackers(["wandb"], tmp_path, step=3):
        pass
