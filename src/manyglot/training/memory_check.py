"""Memory before a run begins: what a step needs at least, and what the system would give."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from manyglot.batches.loader import BatchLoader, DataPosition, PlannedBatch
from manyglot.devices import uses_bfloat16
from manyglot.distributed import DistributedContext
from manyglot.errors import SettingsError
from manyglot.model.training_cost import num_saved_activations
from manyglot.model.transformer import Transformer
from manyglot.progress import format_bytes
from manyglot.training.trainer import TrainingSettings, iter_update_batches

RECLAIMABLE_CGROUP_STATS = "active_file", "inactive_file", "slab_reclaimable"
"""What a control group has in memory and would give back."""


def check_cpu_memory(
    model: Transformer, loader: BatchLoader, settings: TrainingSettings, distributed: DistributedContext
) -> None:
    """Refuse steps that cannot fit into the memory of a CPU: the system would kill us without a word."""
    if problem := explain_cpu_memory_shortage(model, loader, settings, distributed):
        raise SettingsError(problem)


def explain_cpu_memory_shortage(
    model: Transformer, loader: BatchLoader, settings: TrainingSettings, distributed: DistributedContext
) -> str | None:
    """Why steps cannot fit into the memory of a CPU, if they cannot.

    The model has its weights in memory, whole even if they are to be shared out, and neither gradients nor moments yet:
    the first step makes the moments in its end, the second has them beside what it keeps. Steps were measured to take
    1.1 times what is reckoned here and more, so nothing is refused that would fit.
    """
    if distributed.device.type != "cpu":
        return None
    weight_bytes = sum(parameter.nbytes for parameter in model.parameters())
    gradient_bytes = weight_bytes // distributed.world_size if settings.fsdp else weight_bytes
    moment_bytes, freed_bytes = 2 * gradient_bytes, weight_bytes - gradient_bytes
    updates = islice(
        iter_update_batches(loader, DataPosition(), settings.gradient_accumulation), min(settings.max_steps, 2)
    )
    first, *second = (
        _activation_bytes(model, [batch for _, batch in distributed.local_share(batches)], settings, distributed)
        for batches, _ in updates
    )
    model_bytes = moment_bytes + gradient_bytes - freed_bytes
    needed = max(
        first - freed_bytes, model_bytes, *(moment_bytes + activations - freed_bytes for activations in second)
    )
    available = available_memory()
    is_short = available is not None and available < needed
    if not distributed.any_process(is_short):
        return None
    available_text = format_bytes(available) if is_short and available is not None else "less"
    hint = "Lower batches.max_tokens and raise training.gradient_accumulation by as much."
    if available is not None and available < model_bytes:
        hint = "The model alone is too large for this machine, whatever the batches."
    return f"A step needs at least {format_bytes(needed)} of memory, and {available_text} is available. {hint}"


def _activation_bytes(
    model: Transformer, batches: Sequence[PlannedBatch], settings: TrainingSettings, distributed: DistributedContext
) -> int:
    """Bytes that a step keeps for its backward pass: one batch after the other, so those of the largest."""
    itemsize = 2 if uses_bfloat16(distributed.device, settings.precision) else model.embedding.weight.itemsize
    token_counts, num_symbols = (batch.token_counts() for batch in batches), model.embedding.num_embeddings
    return itemsize * max(
        (num_saved_activations(model.settings, num_symbols, *counts) for counts in token_counts), default=0
    )


def available_memory(root: Path = Path("/")) -> int | None:
    """Bytes that this process could still take, swap included; None where the system does not say.

    They are what the machine has left, or less in a control group with a limit of its own, such as a container.
    """
    machine = _read_numbers(root / "proc/meminfo")
    if "MemAvailable" not in machine:
        return None
    left = [1024 * machine["MemAvailable"], *_cgroup_bytes_left(root)]
    return max(min(left), 0) + 1024 * machine.get("SwapFree", 0)


def _cgroup_bytes_left(root: Path) -> Iterator[int]:
    """What each control group around this process may still take; its cached files and names would make room."""
    for line in _read_lines(root / "proc/self/cgroup"):
        controllers, _, path = line.partition(":")[2].partition(":")
        if controllers == "":
            cgroup_root, limit_file, usage_file, prefix = "sys/fs/cgroup", "memory.max", "memory.current", ""
        elif "memory" in controllers.split(","):  # version 1
            cgroup_root, limit_file, usage_file = (
                "sys/fs/cgroup/memory",
                "memory.limit_in_bytes",
                "memory.usage_in_bytes",
            )
            prefix = "total_"
        else:
            continue
        names = [name for name in path.split("/") if name not in ("", "..")]
        for depth in range(len(names) + 1):  # the innermost may be named as the machine outside a container sees it
            group = root / cgroup_root / "/".join(names[:depth])
            limit_and_usage = [
                int(word) for file in (limit_file, usage_file) for word in _read_lines(group / file) if word.isdecimal()
            ]
            if len(limit_and_usage) == 2:  # or there is no limit
                stats = _read_numbers(group / "memory.stat")
                yield (
                    limit_and_usage[0]
                    - limit_and_usage[1]
                    + sum(stats.get(f"{prefix}{name}", 0) for name in RECLAIMABLE_CGROUP_STATS)
                )


def _read_numbers(path: Path) -> dict[str, int]:
    """The number after each name."""
    lines = (words for line in _read_lines(path) if len(words := line.split()) > 1)
    return {words[0].rstrip(":"): int(words[1]) for words in lines if words[1].isdecimal()}


def _read_lines(path: Path) -> list[str]:
    """Of a file of the system's, which need not be there."""
    try:
        return path.read_text("utf-8", errors="replace").splitlines()
    except OSError:
        return []
