"""Two machines train and evaluate like one, and torchrun resumes a training after a process or a machine has failed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import manyglot
from manyglot.config.experiment import Experiment
from manyglot.training.run_folder import STOP_MARKER_NAME
from manyglot.training.training_log import read_log
from tests.conftest import tiny_experiment
from tests.system.machines import Machine, children, explain_missing_permission, torchrun, two_machines

pytestmark = pytest.mark.slow

MAX_STEPS, INTERRUPTED_STEP = 300, 70
TRAINING = {
    "max_steps": MAX_STEPS,
    "warmup_steps": 2,
    "gradient_accumulation": 2,
    "checkpoint_every": 20,
    "validate_every": 60,
    "log_every": 1,
    "device": "cpu",
}
OWN_STORE_PER_START = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
WITH_CALLBACK = """
import sys
import manyglot
from manyglot.config.experiment import read_experiment

experiment = read_experiment(sys.argv[1], sys.argv[2:])
manyglot.train(experiment, on_step=lambda event: event.request_stop() if event.step == 5 else None)
"""


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Machine, Machine]]:
    if reason := explain_missing_permission():
        pytest.skip(reason)
    with two_machines(tmp_path_factory.mktemp("hosts")) as pair:
        yield pair


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    experiment = tiny_experiment(tmp_path_factory.mktemp("prepared"), training=TRAINING)
    manyglot.prepare(experiment)
    (experiment.data.parent / "experiment.yaml").write_text(yaml.safe_dump(experiment.to_dict()), encoding="utf-8")
    return experiment


class Job:
    """A command under torchrun on both machines, and the run folder that it writes."""

    def __init__(self, machines: tuple[Machine, Machine], folder: Path, prepared: Experiment, *settings: str) -> None:
        self.machines, self.run, self.folder = machines, folder / "run", folder
        self.config = prepared.data.parent / "experiment.yaml"
        self.settings = [f"run={self.run}", *settings]
        self.agents: list[subprocess.Popen[bytes]] = []

    def train(self, **environment: str) -> None:
        overrides = [part for setting in self.settings for part in ("--set", setting)]
        self.start("-m", "manyglot", "train", str(self.config), *overrides, **environment)

    def start(self, *command: str, max_restarts: int = 3, **environment: str) -> None:
        self.command = torchrun(self.machines[0], *command, max_restarts=max_restarts)
        self.environment = OWN_STORE_PER_START | environment
        self.agents = [self._start_agent(index) for index in range(2)]

    def start_again(self, index: int) -> None:
        assert self.agents[index].poll() is not None
        self.agents[index] = self._start_agent(index)

    def _start_agent(self, index: int) -> subprocess.Popen[bytes]:
        return self.machines[index].start(self.command, self.log(index), **self.environment)

    def log(self, index: int) -> Path:
        return self.folder / f"{self.machines[index].name}.log"

    def output(self) -> str:
        return "\n".join(self.log(index).read_text("utf-8", errors="replace") for index in range(2))

    def wait_for_step(self, step: int) -> None:
        while not self.run.exists() or not any(line["step"] >= step for line in read_log(self.run / "log.jsonl")):
            assert any(agent.poll() is None for agent in self.agents), self.output()
            time.sleep(0.02)

    def wait(self) -> list[int]:
        """Wait until torchrun ends on both machines, and return its exit codes."""
        try:
            return [agent.wait(timeout=240) for agent in self.agents]
        except subprocess.TimeoutExpired:
            self.stop()
            raise AssertionError(self.output()) from None

    def stop(self) -> None:
        for machine, agent in zip(self.machines, self.agents, strict=True):
            machine.fail()
            agent.wait()
            machine.recover()


@pytest.fixture
def job(machines: tuple[Machine, Machine], tmp_path: Path, prepared: Experiment) -> Iterator[Callable[..., Job]]:
    jobs = []

    def make(*settings: str) -> Job:
        jobs.append(Job(machines, tmp_path, prepared, *settings))
        return jobs[-1]

    yield make
    for each in jobs:
        each.stop()


@pytest.fixture(scope="module")
def uninterrupted(
    machines: tuple[Machine, Machine], tmp_path_factory: pytest.TempPathFactory, prepared: Experiment
) -> dict[bool, Path]:
    """The run folders of a training without and with sharding."""
    runs = {}
    for fsdp in (False, True):
        job = Job(machines, tmp_path_factory.mktemp("uninterrupted"), prepared, f"training.fsdp={fsdp}")
        job.train()
        assert job.wait() == [0, 0], job.output()
        runs[fsdp] = job.run
    return runs


def losses(run: Path) -> list[dict[str, Any]]:
    """Return the log without the times."""
    times = {"seconds", "tokens_per_second", "validation"}
    return [{key: value for key, value in line.items() if key not in times} for line in read_log(run / "log.jsonl")]


def assert_equal_runs(run: Path, expected: Path) -> None:
    """The runs have the same losses in all steps, and the same weights and moments, byte for byte."""
    assert losses(run) == losses(expected)
    assert [line["step"] for line in losses(run) if "loss" in line] == list(range(1, MAX_STEPS + 1))
    checkpoint = Path("checkpoints", f"step-{MAX_STEPS:08}")
    for name in ("model/model.safetensors", checkpoint / "model.safetensors", checkpoint / "optimizer.safetensors"):
        assert (run / name).read_bytes() == (expected / name).read_bytes(), name


def kill_process(job: Job, index: int) -> None:
    (worker,) = children(job.agents[index].pid)
    os.kill(worker, signal.SIGKILL)


def kill_torchrun_alone(job: Job, index: int) -> None:
    """Its process trains on until the other torchrun notices that a machine waits to join, after about 20 seconds."""
    (other_worker,) = children(job.agents[1 - index].pid)
    os.kill(other_worker, signal.SIGSTOP)  # or this short training would end before
    job.agents[index].kill()
    job.agents[index].wait()
    job.start_again(index)
    time.sleep(25)
    os.kill(other_worker, signal.SIGCONT)


def cut_power(job: Job, index: int) -> None:
    """The other machine does not learn that the connections are gone."""
    job.machines[index].fail()
    job.agents[index].wait()
    time.sleep(1)
    job.machines[index].recover()
    job.start_again(index)


def drain(job: Job, index: int) -> None:
    """The scheduler ends one machine, and starts it again elsewhere."""
    job.agents[index].terminate()
    assert job.agents[index].wait(timeout=60) != 0
    job.start_again(index)


def end_the_job(job: Job, index: int) -> None:
    """Without the first machine, which has the rendezvous, torchrun ends on all machines."""
    job.agents[index].terminate()
    assert all(job.wait())
    assert not (job.run / "model").exists()
    for agent in range(2):
        job.start_again(agent)


@pytest.mark.parametrize(
    ("failure", "index", "fsdp"),
    [
        (kill_process, 0, False),
        (kill_process, 1, False),
        (kill_process, 0, True),
        (kill_process, 1, True),
        (kill_torchrun_alone, 1, False),
        (cut_power, 1, False),
        (cut_power, 1, True),
        (drain, 1, False),
        (end_the_job, 0, False),
    ],
)
def test_a_training_resumes_exactly(
    failure: Callable[[Job, int], None],
    index: int,
    fsdp: bool,
    job: Callable[..., Job],
    uninterrupted: dict[bool, Path],
) -> None:
    training = job(f"training.fsdp={fsdp}")
    training.train()
    training.wait_for_step(INTERRUPTED_STEP)
    failure(training, index)
    assert training.wait() == [0, 0], training.output()
    assert "Resuming from step" in training.output()
    assert_equal_runs(training.run, uninterrupted[fsdp])


def test_a_training_stopped_by_a_callback_is_not_started_again(job: Callable[..., Job]) -> None:
    stopped = job("training.max_steps=8")
    stopped.start(str(_script(stopped)), str(stopped.config), *stopped.settings, max_restarts=2)
    assert stopped.wait() == [1, 1]
    assert "A callback has stopped this run." in stopped.output()
    assert [line["step"] for line in losses(stopped.run)] == [1, 2, 3, 4, 5]
    assert (stopped.run / STOP_MARKER_NAME).exists()
    stopped.train()
    assert stopped.wait() == [0, 0], "a new start resumes"
    assert not (stopped.run / STOP_MARKER_NAME).exists()


def _script(job: Job) -> Path:
    path = job.folder / "train_with_callback.py"
    path.write_text(WITH_CALLBACK, encoding="utf-8")
    return path


def test_restarts_that_would_hang_are_refused(job: Callable[..., Job]) -> None:
    refused = job()
    refused.train(TORCH_DISABLE_SHARE_RDZV_TCP_STORE="0")
    assert all(refused.wait())
    assert "needs the environment variable TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1" in refused.output()


def test_machines_that_find_themselves_at_the_loopback_address_train(
    tmp_path: Path, prepared: Experiment, machines: object
) -> None:
    with two_machines(tmp_path, "debian", own_name_is_loopback=True) as pair:
        training = Job(pair, tmp_path, prepared, "training.max_steps=4")
        training.train()
        assert training.wait() == [0, 0], training.output()


def test_an_evaluation_by_two_machines_has_the_same_files(
    job: Callable[..., Job], uninterrupted: dict[bool, Path], prepared: Experiment
) -> None:
    evaluation = job()
    model, data = uninterrupted[False] / "model", prepared.data
    arguments = ["-m", "manyglot", "evaluate", str(model), "--data", str(data), "--zero-shot", "--output"]
    scores, expected = evaluation.folder / "two" / "scores", evaluation.folder / "one" / "scores"
    evaluation.start(*arguments, str(scores))
    assert evaluation.wait() == [0, 0], evaluation.output()
    subprocess.run([sys.executable, *arguments, str(expected)], check=True, capture_output=True)
    files = sorted(path.relative_to(expected) for path in expected.rglob("*") if path.is_file())
    assert Path("results.json") in files
    assert sorted(path.relative_to(scores) for path in scores.rglob("*") if path.is_file()) == files
    for path in files:
        assert (scores / path).read_bytes() == (expected / path).read_bytes(), path
