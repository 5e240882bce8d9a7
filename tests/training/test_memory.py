"""Too little memory is told in a line, before a step where it can be known, and after it where not."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import torch

import manyglot
from manyglot.batches.dataset import Dataset
from manyglot.batches.loader import Loader, Place
from manyglot.config.experiment import Experiment
from manyglot.corpus.rows import Split
from manyglot.distributed import DistributedContext
from manyglot.errors import ManyglotError, SettingsError
from manyglot.reports.forecast import print_forecast
from manyglot.training import loop, memory, trial
from manyglot.training.memory import available_memory, check_memory
from manyglot.vocabulary.subwords import PAD
from manyglot.workflows.train import forecast, new_model
from tests.conftest import tiny_experiment

BOTH: list[Callable[[Experiment], object]] = [forecast, manyglot.train]
ALONE = DistributedContext(torch.device("cpu"))


@pytest.fixture
def experiment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Experiment:
    monkeypatch.setattr(trial, "MOST", 1)
    experiment = tiny_experiment(tmp_path, batches={"max_tokens": 2000})
    manyglot.prepare(experiment)
    return experiment


def test_a_batch_that_cannot_fit_is_refused(experiment: Experiment, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "available_memory", lambda: 200_000)
    message = r"A step needs at least \S+ MB of memory, and 200 kB is available\. Lower batches\.max_tokens and"
    with pytest.raises(SettingsError, match=message):
        manyglot.train(experiment)
    assert not experiment.run.exists()
    monkeypatch.setattr(memory, "available_memory", lambda: 1000)
    with pytest.raises(SettingsError, match=r"1 kB is available\. The model alone is too large"):
        manyglot.train(experiment)


def test_a_run_for_a_larger_machine_can_be_planned(
    experiment: Experiment, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """All but what a trial would show, which is not made."""
    whole = forecast(experiment)
    monkeypatch.setattr(memory, "available_memory", lambda: 200_000)
    found = forecast(experiment)
    assert found.trial is None
    assert found.beginning.state == "refused"
    assert found.beginning.reason.startswith("A step needs at least")
    assert (found.course, found.num_parameters, found.disk.needed) == (
        whole.course,
        whole.num_parameters,
        whole.disk.needed,
    )
    print_forecast(found.as_json())
    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines if line.startswith(("time", "memory"))] == [["time", "–"], ["memory", "–"]]


@pytest.mark.parametrize("available", [None, 10**8])
@pytest.mark.parametrize("begin", BOTH)
def test_what_fits_or_is_not_known_is_not_refused(
    available: int | None,
    begin: Callable[[Experiment], object],
    experiment: Experiment,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(memory, "available_memory", lambda: available)
    begin(experiment)


def needed(experiment: Experiment, monkeypatch: pytest.MonkeyPatch, distributed: DistributedContext = ALONE) -> int:
    """The fewest bytes with which a training is not refused."""
    dataset = Dataset(experiment.data)
    model = new_model(experiment, dataset)
    loader = Loader(dataset.store(Split.TRAIN), dataset.supervised, experiment.batches, model.tags(), experiment.seed)

    def fits(available: int) -> bool:
        monkeypatch.setattr(memory, "available_memory", lambda: available)
        try:
            check_memory(model, loader, experiment.training, distributed)
        except SettingsError:
            return False
        return True

    return bisect_left(range(10**9), True, key=fits)


def weights_of(experiment: Experiment) -> int:
    return sum(parameter.nbytes for parameter in new_model(experiment, Dataset(experiment.data)).parameters())


def with_training(experiment: Experiment, **changes: object) -> Experiment:
    return experiment.model_copy(update={"training": experiment.training.model_copy(update=changes)})


def test_a_single_step_has_no_moments_beside_what_it_keeps(
    experiment: Experiment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are made in its end."""
    monkeypatch.setattr(memory, "kept_numbers", lambda *_: 10**6)
    one, many = (needed(with_training(experiment, max_steps=n), monkeypatch) for n in (1, 100))
    assert (one, many) == (4 * 10**6, 4 * 10**6 + 2 * weights_of(experiment))


def test_what_is_shared_out_leaves_its_room(experiment: Experiment, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of three quarters of the weights, of their gradients and of the moments."""

    class OneOfFour(DistributedContext):
        def any(self, wish: bool) -> bool:
            return wish

    four = OneOfFour(torch.device("cpu"), size=4)
    small = experiment.model_copy(update={"batches": experiment.batches.model_copy(update={"max_tokens": 60})})
    whole, shared = (with_training(small, accumulation=4, shard=each) for each in (False, True))
    saved = needed(whole, monkeypatch, four) - needed(shared, monkeypatch, four)
    assert saved >= 0.75 * 3 * weights_of(experiment)  # gradients come as what is kept goes, so not 4


def test_only_the_batches_that_fall_to_a_process_count(experiment: Experiment, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of which there may be none: the number of processes is checked later."""

    class LastOfMany(DistributedContext):
        def any(self, wish: bool) -> bool:
            return wish

    last = LastOfMany(torch.device("cpu"), rank=9, size=10)
    assert needed(experiment, monkeypatch, last) == 3 * weights_of(experiment)


@pytest.mark.parametrize("side", ["source", "target"])
def test_the_size_of_a_batch_is_known_before_it_is_loaded(side: str, experiment: Experiment) -> None:
    changes = {"guidance": [{"method": "token", "side": side}], "batches": {"max_tokens": 300}}
    experiment = tiny_experiment(experiment.run.parent, **changes)
    dataset = Dataset(experiment.data)
    tags = new_model(experiment, dataset).tags()
    loader = Loader(dataset.store(Split.TRAIN), dataset.supervised, experiment.batches, tags, experiment.seed)
    for planned, _ in islice(loader.planned(Place()), 5):
        batch = planned.load()
        sides = [each.numpy() for each in (batch.source_BS, batch.input_BT)]
        assert [tuple(extent) for extent in planned.extents()] == [(np.sum(x != PAD), x.size) for x in sides]


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
        forecast(experiment)


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


def test_available_is_what_the_machine_has_and_its_groups_allow(tmp_path: Path) -> None:
    assert available_memory(tmp_path) is None
    write(
        tmp_path, {"proc/meminfo": "MemTotal:  900 kB\nMemAvailable:  500 kB\nSwapFree:  10 kB\nHugePages_Total:  0\n"}
    )
    assert available_memory(tmp_path) == 510 * 1024
    group = "sys/fs/cgroup/outer/inner/memory."
    write(tmp_path, {"proc/self/cgroup": "0::/outer/inner\n", f"{group}max": "max\n", f"{group}current": "7\n"})
    assert available_memory(tmp_path) == 510 * 1024
    group = "sys/fs/cgroup/outer/memory."
    stat = "anon 500\nactive_file 30\ninactive_file 200\n"
    write(tmp_path, {f"{group}max": "1000\n", f"{group}current": "900\n", f"{group}stat": stat})
    assert available_memory(tmp_path) == 330 + 10 * 1024
    write(tmp_path, {f"{group}max": "100\n"})
    assert available_memory(tmp_path) == 10 * 1024


def test_available_in_groups_of_version_1(tmp_path: Path) -> None:
    """In a container, the path is often the one outside it, and the group is at the top."""
    group = "sys/fs/cgroup/memory/memory."
    stat = "cache 300\ninactive_file 1\ntotal_active_file 100\ntotal_inactive_file 50\n"
    limits = {f"{group}limit_in_bytes": "1000\n", f"{group}usage_in_bytes": "600\n", f"{group}stat": stat}
    groups = {"proc/self/cgroup": "5:cpu,cpuacct:/\n4:memory:/docker/1f3c\n0::/\n"}
    write(tmp_path, {"proc/meminfo": "MemAvailable:  500 kB\n"} | groups | limits)
    assert available_memory(tmp_path) == 550


def test_an_unlimited_group_of_version_1_is_one_without_limit(tmp_path: Path) -> None:
    group = "sys/fs/cgroup/memory/a/memory."
    limits = {f"{group}limit_in_bytes": "9223372036854771712\n", f"{group}usage_in_bytes": "600\n"}
    write(tmp_path, {"proc/meminfo": "MemAvailable:  500 kB\n", "proc/self/cgroup": "4:memory:/a\n"} | limits)
    assert available_memory(tmp_path) == 500 * 1024


def test_what_would_be_given_back_is_not_taken_for_used(tmp_path: Path) -> None:
    """File pages and reclaimable slabs in a control group."""
    group = "sys/fs/cgroup/memory."
    stat = "anon 500\nactive_file 30\ninactive_file 200\nslab_reclaimable 60\nslab 70\n"
    limits = {f"{group}max": "1000\n", f"{group}current": "900\n", f"{group}stat": stat}
    write(tmp_path, {"proc/meminfo": "MemAvailable:  5 kB\n", "proc/self/cgroup": "0::/\n"} | limits)
    assert available_memory(tmp_path) == 390


def test_odd_names_of_groups_end_nothing(tmp_path: Path) -> None:
    write(tmp_path, {"proc/meminfo": "MemAvailable:  5 kB\n\nodd\n", "proc/self/cgroup": ""})
    (tmp_path / "proc/self/cgroup").write_bytes(b"\nodd\n0::/caf\xe9\n")
    assert available_memory(tmp_path) == 5 * 1024
