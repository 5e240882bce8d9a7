"""Memory before a run begins: what a step needs at least, and what the system would give."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from manyglot.batches.loader import Loader, Place
from manyglot.devices import in_half
from manyglot.errors import SettingsError
from manyglot.model.cost import kept_numbers
from manyglot.model.transformer import Transformer
from manyglot.progress import size
from manyglot.training.distributed import Team
from manyglot.training.loop import TrainingSettings, updates_from


def check_memory(model: Transformer, loader: Loader, settings: TrainingSettings, team: Team) -> None:
    """Refuse a first step that cannot fit into the memory of a CPU: the system would kill us without a word.

    The model has its weights in memory, and neither gradients nor moments yet. Steps were measured to take 1.1 to 1.5
    times what is reckoned here, so nothing is refused that would fit.
    """
    if team.device.type != "cpu":
        return
    gradients = sum(parameter.nbytes for parameter in model.parameters()) // (team.size if settings.shard else 1)
    moments = 2 * gradients
    batches, _ = next(updates_from(loader, Place(), settings.accumulation))
    extents, num_symbols = (batch.extents() for batch in batches), model.embedding.num_embeddings
    kept = max(kept_numbers(model.settings, num_symbols, *each) for each in extents)
    kept *= 2 if in_half(team.device, settings.precision) else model.embedding.weight.itemsize
    needed = moments + max(gradients, kept)  # gradients come as what is kept goes
    available = available_memory()
    short = available is not None and available < needed
    if not team.any(short):
        return
    there = size(available) if short and available is not None else "less"
    hint = "Lower batches.max_tokens and raise training.accumulation by as much."
    if available is not None and available < moments + gradients:
        hint = "The model alone is too large for this machine, whatever the batches."
    raise SettingsError(f"A step needs at least {size(needed)} of memory, and {there} is available. {hint}")


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
    """What each control group around this process may still take; its cached files would make room."""
    for line in _lines(root / "proc/self/cgroup"):
        _, controllers, path = line.split(":", 2)
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
                files = _numbers(group / "memory.stat")
                yield found[0] - found[1] + sum(files.get(f"{prefix}{kind}_file", 0) for kind in ("active", "inactive"))


def _numbers(path: Path) -> dict[str, int]:
    """The number after each name."""
    found = (line.split()[:2] for line in _lines(path))
    return {words[0].rstrip(":"): int(words[1]) for words in found if len(words) == 2 and words[1].isdecimal()}


def _lines(path: Path) -> list[str]:
    """Of a file of the system's, which need not be there."""
    try:
        return path.read_text("utf-8").splitlines()
    except OSError:
        return []
