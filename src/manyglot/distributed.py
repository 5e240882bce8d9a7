"""Several processes that train one model together, started by torchrun: NCCL between GPUs, gloo between CPUs.

The batches of an update are dealt out; every process adds up the gradients of its own, and these are added up over all.
What is in a batch, and what dropout does to it, depends on the seed, the step and the number of the batch alone, so a
run may go on with another number of processes.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from itertools import groupby
from typing import TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from manyglot.devices import find_device
from manyglot.errors import SettingsError

T = TypeVar("T")
PATIENCE = timedelta(hours=2)
"""How long a process waits for another, which may be measuring or writing; then it takes it for dead."""


@dataclass(frozen=True)
class Team:
    """This process among the others."""

    device: torch.device
    rank: int = 0
    size: int = 1
    talk: dist.ProcessGroup | None = None
    """For words between the processors, which do not wait for the GPUs."""

    @property
    def leads(self) -> bool:
        """One of them writes the log and the checkpoints."""
        return self.rank == 0

    def share(self, things: Sequence[T]) -> list[tuple[int, T]]:
        """Those that fall to this process, with their numbers."""
        return list(enumerate(things))[self.rank :: self.size]

    def add_up(self, tensors: Sequence[Tensor]) -> None:
        """Replace tensors by their sums over all processes, those of a type in one piece."""
        if self.size == 1:
            return
        for _, group in groupby(sorted(tensors, key=lambda t: str(t.dtype)), key=lambda t: t.dtype):
            alike = list(group)
            flat = torch.cat([tensor.flatten() for tensor in alike])
            dist.all_reduce(flat)
            parts = torch.split(flat, [tensor.numel() for tensor in alike])
            torch._foreach_copy_(alike, [part.view_as(t) for part, t in zip(parts, alike, strict=True)])

    def any(self, wish: bool) -> bool:
        """Whether one of them wishes something."""
        if self.size == 1:
            return wish
        asked = torch.tensor(float(wish))
        dist.all_reduce(asked, group=self.talk)
        return bool(asked > 0)

    def told(self, number: float) -> float:
        """What the one that leads has for a number."""
        if self.size == 1:
            return number
        said = torch.tensor(number, dtype=torch.float64)
        dist.broadcast(said, src=0, group=self.talk)
        return float(said)

    def wait(self) -> None:
        """Until all are here."""
        if self.size > 1:
            dist.barrier(group=self.talk)


def num_processes() -> int:
    """How many processes torchrun started; one without it."""
    return int(os.environ.get("WORLD_SIZE", "1"))


@contextmanager
def team(device_name: str) -> Iterator[Team]:
    """All processes that torchrun started, or this one alone; under torchrun each has a GPU of its own."""
    size = num_processes()
    if size == 1:
        yield Team(find_device(device_name))
        return
    device = find_device(device_name)
    if device.type == "cuda":
        number = int(os.environ["LOCAL_RANK"])
        if number >= torch.cuda.device_count():
            raise SettingsError(f"torchrun started more processes than there are GPUs ({torch.cuda.device_count()}).")
        device = torch.device("cuda", number)
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo", timeout=PATIENCE)
    try:
        yield Team(device, dist.get_rank(), size, dist.new_group(backend="gloo", timeout=PATIENCE))
    finally:
        dist.destroy_process_group()
