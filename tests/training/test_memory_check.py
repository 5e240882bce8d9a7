"""Too little memory is reported in one line: before the first step if it can be predicted, otherwise after it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import torch

import manyglot
from manyglot.batches.loader import BatchLoader, DataPosition
from manyglot.batches.prepared_dataset import PreparedDataset
from manyglot.config.experiment import Experiment
from manyglot.corpus.base import Split
from manyglot.distributed import DistributedContext
from manyglot.errors import ManyglotError, SettingsError
from manyglot.reports.dry_run_table import print_dry_run
from manyglot.training import memory_check, step_timing, trainer
from manyglot.training.memory_check import available_memory_and_swap, check_cpu_memory
from manyglot.vocabulary.subword_model import PAD
from manyglot.workflows.train import dry_run, initialize_model
from tests.conftest import tiny_experiment

BOTH: list[Callable[[Experiment], object]] = [dry_run, manyglot.train]
ALONE = DistributedContext(torch.device("cpu"))


@pytest.fixture
def experiment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Experiment:
    monkeypatch.setattr(step_timing, "MAX_TIMED_STEPS", 1)
    experiment = tiny_experiment(tmp_path, batches={"max_tokens": 2000})
    manyglot.prepare(experiment)
    return experiment


def test_a_batch_that_cannot_fit_is_refused(experiment: Experiment, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_check, "available_memory_and_swap", lambda: 200_000)
    message = r"A step needs at least \S+ MB of memory, but only 200 kB is available\. Lower batches\.max_tokens and"
    with pytest.raises(SettingsError, match=message):
        manyglot.train(experiment)
    assert not experiment.run.exists()
    monkeypatch.setattr(memory_check, "available_memory_and_swap", lambda: 1000)
    with pytest.raises(SettingsError, match=r"1 kB is available\. The model alone is too large"):
        manyglot.train(experiment)


@pytest.mark.parametrize("run", BOTH)
def test_a_model_that_is_absurdly_large_is_not_created(experiment: Experiment, run: Callable[..., object]) -> None:
    model = experiment.model.model_copy(update={"width": 65_536, "ffn_width": 262_144, "num_encoder_layers": 1000})
    message = r"The weights need at least \S+ TB of memory, but only .* is available\. The model alone is too large"
    with pytest.raises(SettingsError, match=message):
        run(experiment.model_copy(update={"model": model}))


def test_a_dry_run_works_for_a_run_that_does_not_fit(
    experiment: Experiment, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The dry run reports everything except the step timing."""
    whole = dry_run(experiment)
    monkeypatch.setattr(memory_check, "available_memory_and_swap", lambda: 200_000)
    result = dry_run(experiment)
    assert result.step_timing is None
    assert result.resume_status.status == "refused"
    assert result.resume_status.refusal_reason.startswith("A step needs at least")
    assert (result.data_schedule, result.num_parameters, result.disk.needed_bytes) == (
        whole.data_schedule,
        whole.num_parameters,
        whole.disk.needed_bytes,
    )
    print_dry_run(result.to_dict())
    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines if line.startswith(("time", "memory"))] == [["time", "–"], ["memory", "–"]]


@pytest.mark.parametrize("available", [None, 10**8])
@pytest.mark.parametrize("begin", BOTH)
def test_a_run_that_fits_or_has_unknown_memory_starts(
    available: int | None,
    begin: Callable[[Experiment], object],
    experiment: Experiment,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(memory_check, "available_memory_and_swap", lambda: available)
    begin(experiment)


def needed(experiment: Experiment, monkeypatch: pytest.MonkeyPatch, distributed: DistributedContext = ALONE) -> int:
    """Return the smallest available memory with which training is not refused."""
    dataset = PreparedDataset(experiment.data)
    model = initialize_model(experiment, dataset)
    loader = BatchLoader(
        dataset.token_store(Split.TRAIN),
        dataset.train_directions,
        experiment.batches,
        model.tags_by_language(),
        experiment.seed,
    )

    def fits(available: int) -> bool:
        monkeypatch.setattr(memory_check, "available_memory_and_swap", lambda: available)
        try:
            check_cpu_memory(model, loader, experiment.training, distributed)
        except SettingsError:
            return False
        return True

    return bisect_left(range(10**9), True, key=fits)


def weights_of(experiment: Experiment) -> int:
    return sum(
        parameter.nbytes for parameter in initialize_model(experiment, PreparedDataset(experiment.data)).parameters()
    )


def with_training(experiment: Experiment, **changes: object) -> Experiment:
    return experiment.model_copy(update={"training": experiment.training.model_copy(update=changes)})


def test_the_first_step_has_activations_but_no_moments(experiment: Experiment, monkeypatch: pytest.MonkeyPatch) -> None:
    """Adam creates the moments at the end of the first step."""
    monkeypatch.setattr(memory_check, "num_saved_activations", lambda *_: 10**6)
    one, many = (needed(with_training(experiment, max_steps=n), monkeypatch) for n in (1, 100))
    assert (one, many) == (4 * 10**6, 4 * 10**6 + 2 * weights_of(experiment))


def test_sharding_frees_memory(experiment: Experiment, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of four processes frees three quarters of the weights, gradients and moments."""

    class OneOfFour(DistributedContext):
        def any_process(self, flag: bool) -> bool:
            return flag

    four = OneOfFour(torch.device("cpu"), world_size=4)
    small = experiment.model_copy(update={"batches": experiment.batches.model_copy(update={"max_tokens": 60})})
    whole, sharded = (with_training(small, gradient_accumulation=4, fsdp=each) for each in (False, True))
    saved = needed(whole, monkeypatch, four) - needed(sharded, monkeypatch, four)
    assert saved >= 0.75 * 3 * weights_of(experiment)  # not 4: gradients appear while activations are freed


def test_only_the_batches_of_this_process_count(experiment: Experiment, monkeypatch: pytest.MonkeyPatch) -> None:
    """There may be none: the number of processes is checked later."""

    class LastOfMany(DistributedContext):
        def any_process(self, flag: bool) -> bool:
            return flag

    last = LastOfMany(torch.device("cpu"), rank=9, world_size=10)
    assert needed(experiment, monkeypatch, last) == 3 * weights_of(experiment)


@pytest.mark.parametrize("side", ["source", "target"])
def test_token_counts_are_known_before_loading(side: str, experiment: Experiment) -> None:
    changes = {"guidance": [{"method": "token", "side": side}], "batches": {"max_tokens": 300}}
    experiment = tiny_experiment(experiment.run.parent, **changes)
    dataset = PreparedDataset(experiment.data)
    tags = initialize_model(experiment, dataset).tags_by_language()
    loader = BatchLoader(
        dataset.token_store(Split.TRAIN), dataset.train_directions, experiment.batches, tags, experiment.seed
    )
    for planned, _ in islice(loader.iter_planned_batches(DataPosition()), 5):
        batch = planned.load()
        sides = [each.numpy() for each in (batch.source_BS, batch.input_BT)]
        assert [tuple(extent) for extent in planned.token_counts()] == [(np.sum(x != PAD), x.size) for x in sides]


def full_gpu(*_: object, **__: object) -> None:
    raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate")


def full_cpu(*_: object, **__: object) -> None:
    torch.empty(2**50)


def full_numpy(*_: object, **__: object) -> None:
    np.empty(2**50)


@pytest.mark.parametrize("fail", [full_gpu, full_cpu, full_numpy])
@pytest.mark.parametrize("begin", BOTH)
def test_an_out_of_memory_step_is_reported_in_one_line(
    begin: Callable[[Experiment], object],
    fail: Callable[..., None],
    experiment: Experiment,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for module in (step_timing, trainer):
        monkeypatch.setattr(module, "accumulate_and_all_reduce_gradients", fail)
    with pytest.raises(ManyglotError, match=r"does not fit into the memory of cpu\. Lower batches\.max_tokens"):
        begin(experiment)


def test_other_errors_are_not_caught(experiment: Experiment, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("shapes differ")

    monkeypatch.setattr(step_timing, "accumulate_and_all_reduce_gradients", fail)
    with pytest.raises(RuntimeError, match="shapes differ"):
        dry_run(experiment)


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


def test_available_memory_respects_the_machine_and_its_cgroups(tmp_path: Path) -> None:
    assert available_memory_and_swap(tmp_path) is None
    write(
        tmp_path, {"proc/meminfo": "MemTotal:  900 kB\nMemAvailable:  500 kB\nSwapFree:  10 kB\nHugePages_Total:  0\n"}
    )
    assert available_memory_and_swap(tmp_path) == 510 * 1024
    group = "sys/fs/cgroup/outer/inner/memory."
    write(tmp_path, {"proc/self/cgroup": "0::/outer/inner\n", f"{group}max": "max\n", f"{group}current": "7\n"})
    assert available_memory_and_swap(tmp_path) == 510 * 1024
    group = "sys/fs/cgroup/outer/memory."
    stat = "anon 500\nactive_file 30\ninactive_file 200\n"
    write(tmp_path, {f"{group}max": "1000\n", f"{group}current": "900\n", f"{group}stat": stat})
    assert available_memory_and_swap(tmp_path) == 330 + 10 * 1024
    write(tmp_path, {f"{group}max": "100\n"})
    assert available_memory_and_swap(tmp_path) == 10 * 1024


def test_available_memory_in_cgroups_of_version_1(tmp_path: Path) -> None:
    """In a container, the path is often that of the host, and the group is at the top."""
    group = "sys/fs/cgroup/memory/memory."
    stat = "cache 300\ninactive_file 1\ntotal_active_file 100\ntotal_inactive_file 50\n"
    limits = {f"{group}limit_in_bytes": "1000\n", f"{group}usage_in_bytes": "600\n", f"{group}stat": stat}
    groups = {"proc/self/cgroup": "5:cpu,cpuacct:/\n4:memory:/docker/1f3c\n0::/\n"}
    write(tmp_path, {"proc/meminfo": "MemAvailable:  500 kB\n"} | groups | limits)
    assert available_memory_and_swap(tmp_path) == 550


def test_an_unlimited_cgroup_of_version_1_has_no_limit(tmp_path: Path) -> None:
    group = "sys/fs/cgroup/memory/a/memory."
    limits = {f"{group}limit_in_bytes": "9223372036854771712\n", f"{group}usage_in_bytes": "600\n"}
    write(tmp_path, {"proc/meminfo": "MemAvailable:  500 kB\n", "proc/self/cgroup": "4:memory:/a\n"} | limits)
    assert available_memory_and_swap(tmp_path) == 500 * 1024


def test_reclaimable_memory_counts_as_free(tmp_path: Path) -> None:
    """File pages and reclaimable slabs of a control group."""
    group = "sys/fs/cgroup/memory."
    stat = "anon 500\nactive_file 30\ninactive_file 200\nslab_reclaimable 60\nslab 70\n"
    limits = {f"{group}max": "1000\n", f"{group}current": "900\n", f"{group}stat": stat}
    write(tmp_path, {"proc/meminfo": "MemAvailable:  5 kB\n", "proc/self/cgroup": "0::/\n"} | limits)
    assert available_memory_and_swap(tmp_path) == 390


def test_unusual_cgroup_names_are_accepted(tmp_path: Path) -> None:
    write(tmp_path, {"proc/meminfo": "MemAvailable:  5 kB\n\nodd\n", "proc/self/cgroup": ""})
    (tmp_path / "proc/self/cgroup").write_bytes(b"\nodd\n0::/caf\xe9\n")
    assert available_memory_and_swap(tmp_path) == 5 * 1024
