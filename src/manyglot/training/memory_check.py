"""CPU memory check before a run: compares the minimum that a step needs with the available memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from manyglot.batches.loader import BatchLoader, DataPosition, PlannedBatch
from manyglot.devices import uses_bfloat16
from manyglot.distributed import DistributedContext
from manyglot.errors import SettingsError
from manyglot.model.settings import ModelSettings
from manyglot.model.training_cost import min_num_weights, num_saved_activations
from manyglot.model.transformer import Transformer
from manyglot.progress import format_bytes
from manyglot.training.trainer import TrainingSettings, iter_update_batches

BYTES_PER_WEIGHT = 4
"""Weights are created in float32."""
RECLAIMABLE_CGROUP_STATS = "active_file", "inactive_file", "slab_reclaimable"
"""Memory of a control group that the kernel can reclaim, by its key in memory.stat."""


def check_cpu_memory(
    model: Transformer, loader: BatchLoader, settings: TrainingSettings, distributed: DistributedContext
) -> None:
    """Raise an error if a step cannot fit into CPU memory; the system would kill the process without a message."""
    if problem := explain_cpu_memory_shortage(model, loader, settings, distributed):
        raise SettingsError(problem)


def check_weights_fit(settings: ModelSettings, num_symbols: int) -> None:
    """Raise an error before a model is created if its weights cannot fit into memory."""
    needed, available = BYTES_PER_WEIGHT * min_num_weights(settings, num_symbols), available_memory_and_swap()
    if available is not None and available < needed:
        raise SettingsError(
            f"The weights need at least {format_bytes(needed)} of memory, but only {format_bytes(available)} is "
            f"available. The model alone is too large for this machine. Use a smaller model or a larger machine."
        )


def explain_cpu_memory_shortage(
    model: Transformer, loader: BatchLoader, settings: TrainingSettings, distributed: DistributedContext
) -> str | None:
    """Return a message if a step cannot fit into CPU memory, otherwise None.

    The full weights are already in memory, even with FSDP; gradients and moments are not. The first step creates the
    moments at its end, and the second step holds them together with its activations. Measured steps need at least 1.1
    times this estimate, so no step that fits is rejected.
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
        _activation_bytes(model, [batch for _, batch in distributed.strided_share(batches)], settings, distributed)
        for batches, _ in updates
    )
    model_bytes = moment_bytes + gradient_bytes - freed_bytes
    needed = max(
        first - freed_bytes, model_bytes, *(moment_bytes + activations - freed_bytes for activations in second)
    )
    available = available_memory_and_swap()
    is_short = available is not None and available < needed
    if not distributed.any_process(is_short):
        return None
    available_text = f"only {format_bytes(available)}" if is_short and available is not None else "less"
    hint = "Lower batches.max_tokens and raise training.gradient_accumulation in proportion."
    if available is not None and available < model_bytes:
        hint = "The model alone is too large for this machine. Use a smaller model or a larger machine."
    return f"A step needs at least {format_bytes(needed)} of memory, but {available_text} is available. {hint}"


def _activation_bytes(
    model: Transformer, batches: Sequence[PlannedBatch], settings: TrainingSettings, distributed: DistributedContext
) -> int:
    """Return the bytes of activations stored for the backward pass of the largest batch; batches run one by one."""
    itemsize = 2 if uses_bfloat16(distributed.device, settings.precision) else model.embedding.weight.itemsize
    token_counts, num_symbols = (batch.token_counts() for batch in batches), model.embedding.num_embeddings
    return itemsize * max(
        (num_saved_activations(model.settings, num_symbols, *counts) for counts in token_counts), default=0
    )


def available_memory_and_swap(root: Path = Path("/")) -> int | None:
    """Return the bytes this process can still allocate, including swap, or None if the system does not report them.

    The limits of control groups, such as those of a container, are respected.
    """
    machine = _read_numbers(root / "proc/meminfo")
    if "MemAvailable" not in machine:
        return None
    left = [1024 * machine["MemAvailable"], *_cgroup_bytes_left(root)]
    return max(min(left), 0) + 1024 * machine.get("SwapFree", 0)


def _cgroup_bytes_left(root: Path) -> Iterator[int]:
    """Yield the bytes left in each control group around this process, counting reclaimable memory as free."""
    for line in _read_lines(root / "proc/self/cgroup"):
        controllers, _, path = line.partition(":")[2].partition(":")
        if controllers == "":
            cgroup_root, limit_file, usage_file, prefix = "sys/fs/cgroup", "memory.max", "memory.current", ""
        elif "memory" in controllers.split(","):  # cgroup version 1
            cgroup_root, limit_file, usage_file = (
                "sys/fs/cgroup/memory",
                "memory.limit_in_bytes",
                "memory.usage_in_bytes",
            )
            prefix = "total_"
        else:
            continue
        names = [name for name in path.split("/") if name not in ("", "..")]
        for depth in range(len(names) + 1):  # the path may be that of the host, seen from a container
            group = root / cgroup_root / "/".join(names[:depth])
            limit_and_usage = [
                int(word) for file in (limit_file, usage_file) for word in _read_lines(group / file) if word.isdecimal()
            ]
            if len(limit_and_usage) == 2:  # otherwise the group has no limit
                stats = _read_numbers(group / "memory.stat")
                yield (
                    limit_and_usage[0]
                    - limit_and_usage[1]
                    + sum(stats.get(f"{prefix}{name}", 0) for name in RECLAIMABLE_CGROUP_STATS)
                )


def _read_numbers(path: Path) -> dict[str, int]:
    """Read lines of the form `name: number` or `name number`."""
    lines = (words for line in _read_lines(path) if len(words := line.split()) > 1)
    return {words[0].rstrip(":"): int(words[1]) for words in lines if words[1].isdecimal()}


def _read_lines(path: Path) -> list[str]:
    """Read the lines of a system file; empty if it does not exist."""
    try:
        return path.read_text("utf-8", errors="replace").splitlines()
    except OSError:
        return []
