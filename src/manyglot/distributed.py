"""Distributed training and evaluation under torchrun: NCCL between GPUs, gloo between CPUs.

The processes share the batches of an update. Each accumulates the gradients of its own batches, and an all-reduce sums
them. The content of a batch and its dropout depend only on the seed, the step and the batch number, so a run can resume
with a different number of processes.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from ipaddress import ip_address
from itertools import groupby
from typing import TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from manyglot.devices import find_device
from manyglot.errors import SettingsError

T = TypeVar("T")
COLLECTIVE_TIMEOUT = timedelta(hours=2)
"""Timeout of a collective. It is long because one process validates and writes checkpoints while the others wait."""


@dataclass(frozen=True)
class DistributedContext:
    """The rank of this process and the collectives it takes part in. With a single process they do nothing."""

    device: torch.device
    rank: int = 0
    world_size: int = 1
    cpu_group: dist.ProcessGroup | None = None
    """The gloo group for small CPU tensors, whose collectives do not wait for the GPUs."""

    @property
    def is_main(self) -> bool:
        """Whether this process writes the log and the checkpoints."""
        return self.rank == 0

    def strided_share(self, items: Sequence[T]) -> list[tuple[int, T]]:
        """Return the items this process handles, with their indices: every `world_size`-th, starting at its rank."""
        return list(enumerate(items))[self.rank :: self.world_size]

    def all_reduce_sum(self, tensors: Sequence[Tensor]) -> None:
        """Replace each tensor by its sum over all processes, in place; tensors of one dtype share one flat buffer."""
        if self.world_size == 1:
            return
        for _, group in groupby(sorted(tensors, key=lambda t: str(t.dtype)), key=lambda t: t.dtype):
            same_dtype = list(group)
            flat = torch.cat([tensor.flatten() for tensor in same_dtype])
            dist.all_reduce(flat)
            parts = torch.split(flat, [tensor.numel() for tensor in same_dtype])
            torch._foreach_copy_(same_dtype, [part.view_as(t) for part, t in zip(parts, same_dtype, strict=True)])

    def any_process(self, flag: bool) -> bool:
        """Whether the flag is true in at least one process."""
        if self.world_size == 1:
            return flag
        total = torch.tensor(float(flag))
        dist.all_reduce(total, group=self.cpu_group)
        return bool(total > 0)

    def broadcast(self, value: float) -> float:
        """Return the value that the main process passes."""
        if self.world_size == 1:
            return value
        tensor = torch.tensor(value, dtype=torch.float64)
        dist.broadcast(tensor, src=0, group=self.cpu_group)
        return float(tensor)

    def barrier(self) -> None:
        """Block until all processes have arrived."""
        if self.world_size > 1:
            dist.barrier(group=self.cpu_group)


def launched_world_size() -> int:
    """Return the number of processes that torchrun started; 1 without torchrun."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def launcher_restarts_failures() -> bool:
    """Whether torchrun starts all processes again when one of them fails (`--max-restarts`)."""
    return int(os.environ.get("TORCHELASTIC_MAX_RESTARTS", "0")) > 0


def is_restarted() -> bool:
    """Whether torchrun on this machine has started its processes again because one of them failed."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) > 0


def check_restarts_find_each_other() -> None:
    """Raise an error if restarted processes would find the addresses of the processes before them, and hang.

    By default, all processes that torchrun starts, also after a failure, exchange their addresses through one store.
    """
    if launcher_restarts_failures() and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":
        raise SettingsError(
            "--max-restarts of torchrun needs the environment variable TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 and "
            "--rdzv-backend=c10d. Set them on all machines, or restarted processes may wait for each other forever."
        )


def set_gloo_interface() -> None:
    """Let gloo use the network if it would use the loopback interface, which does not reach other machines.

    gloo uses the address of the host name. On Debian and Ubuntu this may be 127.0.1.1. GLOO_SOCKET_IFNAME overrides it.
    """
    has_other_machines = int(os.environ.get("GROUP_WORLD_SIZE", "1")) > 1
    if not has_other_machines or "GLOO_SOCKET_IFNAME" in os.environ or _host_name_has_network_address():
        return
    interfaces = [name for _, name in socket.if_nameindex() if name != "lo"]
    if len(interfaces) != 1:
        raise SettingsError(
            f"The host name {socket.gethostname()} has no address that other machines can reach. Set the environment "
            f"variable GLOO_SOCKET_IFNAME to the network interface that reaches them. Known: {', '.join(interfaces)}."
        )
    os.environ["GLOO_SOCKET_IFNAME"] = interfaces[0]


def _host_name_has_network_address() -> bool:
    try:
        addresses = socket.getaddrinfo(socket.gethostname(), None)
    except OSError:
        return False
    return not ip_address(str(addresses[0][4][0]).partition("%")[0]).is_loopback


@contextmanager
def distributed_context(device_name: str) -> Iterator[DistributedContext]:
    """Join the processes that torchrun started, or run alone. Under torchrun, each process has its own GPU."""
    world_size = launched_world_size()
    if world_size == 1:
        yield DistributedContext(find_device(device_name))
        return
    check_restarts_find_each_other()
    set_gloo_interface()
    device = find_device(device_name)
    if device.type == "cuda":
        local_rank = int(os.environ["LOCAL_RANK"])
        if local_rank >= torch.cuda.device_count():
            raise SettingsError(
                f"torchrun started more processes than this machine has GPUs ({torch.cuda.device_count()}). "
                f"Lower --nproc-per-node."
            )
        device = torch.device("cuda", local_rank)
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo", timeout=COLLECTIVE_TIMEOUT)
    try:
        yield DistributedContext(
            device, dist.get_rank(), world_size, dist.new_group(backend="gloo", timeout=COLLECTIVE_TIMEOUT)
        )
    finally:
        dist.destroy_process_group()
