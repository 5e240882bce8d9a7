"""Two processes train like one: the same sentences in the same steps, and the same parameters."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest
import torch
import yaml
from safetensors.torch import load_file

import manyglot
from manyglot.config.experiment import Experiment
from manyglot.distributed import DistributedContext, check_restarts_find_each_other, set_gloo_interface
from manyglot.errors import ManyglotError
from manyglot.training.trainer import TrainingSettings, check_accumulation_divisible
from manyglot.training.training_log import read_log
from tests.conftest import tiny_experiment

TRAINING = {
    "gradient_accumulation": 4,
    "warmup_steps": 2,
    "max_grad_norm": 0.1,
    "checkpoint_every": 2,
    "validate_every": 1,
    "best_metric": "dev_chrf",  # stays 0 in such a short run
    "patience": 5,
    "log_every": 1,
}
IN_DOUBLE = """
import sys
from manyglot.workflows import train as workflow
from manyglot.cli import main
from manyglot.training import best_steps
from manyglot.training.fsdp import local_shard

best_steps.CHANCE_SCORES["dev_chrf"] = -1
initialize_model, gather_model_on_main = workflow.initialize_model, workflow.gather_model_on_main

def check_shards_and_gather(model, distributed):
    num_local, num_total = (sum(part(p).numel() for p in model.parameters()) for part in (local_shard, lambda p: p))
    is_sharded = distributed.world_size > 1 and "training.fsdp=true" in sys.argv
    assert num_local < 0.6 * num_total if is_sharded else num_local == num_total
    return gather_model_on_main(model, distributed)

workflow.initialize_model = lambda *arguments: initialize_model(*arguments).double()
workflow.gather_model_on_main = check_shards_and_gather
main(["train", sys.argv[1], *(part for setting in sys.argv[2:] for part in ("--set", setting))])
"""


def prepared(folder: Path) -> tuple[Experiment, Path]:
    model = {"width": 16, "ffn_width": 32, "num_heads": 2, "num_encoder_layers": 1, "num_decoder_layers": 1}
    batches = {"max_tokens": 120}
    guidance = [{"method": "laa", "init_gain": 1.0}]
    experiment = tiny_experiment(
        folder, model={**model, "dropout": 0.3}, training=TRAINING, batches=batches, guidance=guidance
    )
    manyglot.prepare(experiment)
    config = folder / "experiment.yaml"
    config.write_text(yaml.safe_dump(experiment.to_dict()), encoding="utf-8")
    return experiment, config


def train(config: Path, max_steps: int, processes: int, fsdp: bool = False) -> None:
    """Train in float64, in processes started as torchrun does."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    running = []
    for rank in range(processes):
        places = {"WORLD_SIZE": processes, "RANK": rank, "LOCAL_RANK": rank, "MASTER_PORT": port}
        environment = {**os.environ, **{k: str(v) for k, v in places.items()}, "MASTER_ADDR": "127.0.0.1"}
        settings = f"training.max_steps={max_steps}", f"training.fsdp={str(fsdp).lower()}"
        command = [sys.executable, "-c", IN_DOUBLE, str(config), *settings]
        running.append(subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True))
    for rank, process in enumerate(running):
        _, stderr = process.communicate(timeout=200)
        assert process.returncode == 0, stderr
        assert ("training" in stderr) == (rank == 0), "only the main process prints"


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    experiment, config = prepared(tmp_path_factory.mktemp("alone"))
    train(config, max_steps=9, processes=1)
    return experiment


@pytest.mark.parametrize(
    "parts",
    [
        ((9, 2, False),),
        ((2, 2, False), (4, 1, False), (9, 4, False)),
        ((2, 2, True), (4, 1, False), (9, 2, True)),
    ],
    ids=["two", "two, one, four", "two share, one, two share"],
)
def test_the_number_of_processes_does_not_change_the_result(
    alone: Experiment, parts: tuple[tuple[int, int, bool], ...], tmp_path: Path
) -> None:
    """Also with FSDP, and if a run resumes with other processes; all runs stop early at the same step."""
    experiment, config = prepared(tmp_path)
    for max_steps, processes, fsdp in parts:
        shutil.rmtree(experiment.run / "model", ignore_errors=True)
        train(config, max_steps, processes, fsdp)
    expected, got = (load_file(e.run / "model" / "model.safetensors") for e in (alone, experiment))
    assert expected["embedding.weight"].dtype == torch.float64
    torch.testing.assert_close(got, expected, rtol=1e-9, atol=1e-12)
    measured, expected = (read_log(e.run / "log.jsonl")[-1] for e in (experiment, alone))
    assert measured["dev_nll"] == pytest.approx(expected["dev_nll"], rel=1e-9)
    logs = ([line for line in read_log(e.run / "log.jsonl") if "loss" in line] for e in (experiment, alone))
    for mine, theirs in zip(*logs, strict=True):
        assert mine["step"] <= 6, "five validations after the first were not better"
        for one in (mine, theirs):
            one |= {f"{code} {name}": value for code, part in one.pop("into").items() for name, value in part.items()}
            del one["tokens_per_second"], one["seconds"]
        assert mine == pytest.approx(theirs, rel=1e-9)


def test_batches_that_do_not_divide_by_the_processes_are_refused() -> None:
    distributed = DistributedContext(torch.device("cpu"), world_size=3)
    with pytest.raises(ManyglotError, match="4 batches cannot be divided evenly among 3 processes"):
        check_accumulation_divisible(TrainingSettings(gradient_accumulation=4), distributed)
    check_accumulation_divisible(TrainingSettings(gradient_accumulation=6), distributed)


@pytest.mark.parametrize(
    ("max_restarts", "uses_agent_store", "is_refused"),
    [("3", "True", True), ("0", "True", False), ("3", "False", False)],
)
def test_restarts_that_would_find_old_addresses_are_refused(
    max_restarts: str, uses_agent_store: str, is_refused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCHELASTIC_MAX_RESTARTS", max_restarts)
    monkeypatch.setenv("TORCHELASTIC_USE_AGENT_STORE", uses_agent_store)
    with pytest.raises(ManyglotError, match="TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1") if is_refused else nullcontext():
        check_restarts_find_each_other()


@pytest.mark.parametrize(
    ("own_address", "interfaces", "expected"),
    [
        ("10.0.0.5", ["lo", "eth0"], None),
        ("fe80::1%eth0", ["lo", "eth0"], None),
        ("127.0.1.1", ["lo", "eth0"], "eth0"),
        ("::1", ["lo", "eth0"], "eth0"),
        (None, ["lo", "eth0"], "eth0"),
        ("127.0.1.1", ["lo", "eth0", "docker0"], "Known: eth0, docker0."),
    ],
)
def test_gloo_does_not_use_the_loopback_interface_between_machines(
    own_address: str | None, interfaces: list[str], expected: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def find_address(host: str, port: None) -> list[tuple[object, ...]]:
        if own_address is None:
            raise socket.gaierror
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (own_address, 0))]

    monkeypatch.setattr(socket, "getaddrinfo", find_address)
    monkeypatch.setattr(socket, "if_nameindex", lambda: list(enumerate(interfaces)))
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "")  # so that it is restored
    monkeypatch.delenv("GLOO_SOCKET_IFNAME")
    set_gloo_interface()
    assert "GLOO_SOCKET_IFNAME" not in os.environ, "with one machine, any address will do"
    monkeypatch.setenv("GROUP_WORLD_SIZE", "2")
    is_error = expected is not None and " " in expected
    with pytest.raises(ManyglotError, match=re.escape(str(expected))) if is_error else nullcontext():
        set_gloo_interface()
        assert os.environ.get("GLOO_SOCKET_IFNAME") == expected
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "ib0")
    set_gloo_interface()
    assert os.environ["GLOO_SOCKET_IFNAME"] == "ib0", "the user knows better"
