"""Memory before a run begins: what a step needs at least, and what the system would give."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from manyglot.batches.loader import Loader, Place, Planned
from manyglot.devices import in_half
from manyglot.distributed import DistributedContext
from manyglot.errors import SettingsError
from manyglot.model.cost import kept_numbers
from manyglot.model.transformer import Transformer
from manyglot.progress import size
from manyglot.training.loop import TrainingSettings, updates_from

CACHED = "active_file", "inactive_file", "slab_reclaimable"
"""What a control group has in memory and would give back."""


def check_memory(
    model: Transformer, loader: Loader, settings: TrainingSettings, distributed: DistributedContext
) -> None:
    """Refuse steps that cannot fit into the memory of a CPU: the system would kill us without a word."""
    if problem := shortage(model, loader, settings, distributed):
        raise SettingsError(problem)


def shortage(
    model: Transformer, loader: Loader, settings: TrainingSettings, distributed: DistributedContext
) -> str | None:
    """Why steps cannot fit into the memory of a CPU, if they cannot.

    The model has its weights in memory, whole even if they are to be shared out, and neither gradients nor moments yet:
    the first step makes the moments in its end, the second has them beside what it keeps. Steps were measured to take
    1.1 times what is reckoned here and more, so nothing is refused that would fit.
    """
    if distributed.device.type != "cpu":
        return None
    weights = sum(parameter.nbytes for parameter in model.parameters())
    gradients = weights // distributed.size if settings.shard else weights
    moments, given_away = 2 * gradients, weights - gradients
    updates = islice(updates_from(loader, Place(), settings.accumulation), min(settings.max_steps, 2))
    first, *second = (
        _kept(model, [batch for _, batch in distributed.share(all_)], settings, distributed) for all_, _ in updates
    )
    for_model = moments + gradients - given_away
    needed = max(first - given_away, for_model, *(moments + kept - given_away for kept in second))
    available = available_memory()
    short = available is not None and available < needed
    if not distributed.any(short):
        return None
    there = size(available) if short and available is not None else "less"
    hint = "Lower batches.max_tokens and raise training.accumulation by as much."
    if available is not None and available < for_model:
        hint = "The model alone is too large for this machine, whatever the batches."
    return f"A step needs at least {size(needed)} of memory, and {there} is available. {hint}"


def _kept(
    model: Transformer, batches: Sequence[Planned], settings: TrainingSettings, distributed: DistributedContext
) -> int:
    """Bytes that a step keeps for its backward pass: one batch after the other, so those of the largest."""
    itemsize = 2 if in_half(distributed.device, settings.precision) else model.embedding.weight.itemsize
    extents, num_symbols = (batch.extents() for batch in batches), model.embedding.num_embeddings
    return itemsize * max((kept_numbers(model.settings, num_symbols, *each) for each in extents), default=0)


def available_memory(root: Path = Path("/")) -> int | None:
    """Bytes that this process could still take, swap included; None where the system does not say.

    They are what the machine has left, or less in a control group with a limit of its own, such as a container.
    """
    machine = _numbers(root / "proc/meminfo")
    if "MemAvailable" not in machine:
        return None
    left = [1024 * machine["MemAvailable"], *_left_to_groups(root)]
    return max(min(left), 0) + 1024 * machine.get("SwapFree", 0)


def _left_to_groups(root: Path) -> Iterator[int]:
    """What each control group around this process may still take; its cached files and names would make room."""
    for line in _lines(root / "proc/self/cgroup"):
        controllers, _, path = line.partition(":")[2].partition(":")
        if controllers == "":
            top, limit, used, prefix = "sys/fs/cgroup", "memory.max", "memory.current", ""
        elif "memory" in controllers.split(","):  # version 1
            top, limit, used = "sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes"
            prefix = "total_"
        else:
            continue
        names = [name for name in path.split("/") if name not in ("", "..")]
        for depth in range(len(names) + 1):  # the innermost may be named as the machine outside a container sees it
            group = root / top / "/".join(names[:depth])
            found = [int(word) for file in (limit, used) for word in _lines(group / file) if word.isdecimal()]
            if len(found) == 2:  # or there is no limit
                inside = _numbers(group / "memory.stat")
                yield found[0] - found[1] + sum(inside.get(f"{prefix}{kind}", 0) for kind in CACHED)


def _numbers(path: Path) -> dict[str, int]:
    """The number after each name."""
    lines = (words for line in _lines(path) if len(words := line.split()) > 1)
    return {words[0].rstrip(":"): int(words[1]) for words in lines if words[1].isdecimal()}


def _lines(path: Path) -> list[str]:
    """Of a file of the system's, which need not be there."""
    try:
        return path.read_text("utf-8", errors="replace").splitlines()
    except OSError:
        return []
