"""Checkpoints: all that a run needs to go on exactly where it was; safetensors and JSON only."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from manyglot.batches.loader import Place
from manyglot.errors import FolderError
from manyglot.files import checksum, written_whole
from manyglot.progress import say
from manyglot.training.best import Best, Score
from manyglot.training.loss import Sums
from manyglot.training.sharding import part_of

DAMAGE = (OSError, ValueError, KeyError, TypeError, RuntimeError, SafetensorError)
"""What reading a damaged checkpoint may raise."""


@dataclass(frozen=True)
class RunState:
    """How far a run is. Random numbers are a function of seed and step, so no generator needs restoring."""

    step: int = 0
    place: Place = field(default_factory=Place)
    unlogged: Sums = field(default_factory=Sums)
    """The losses since the last line of the log."""
    best: Best = field(default_factory=Best)
    """What has been measured so far, as far as it decides what is kept and when to stop."""


def save_checkpoint(
    folder: Path, weights: Mapping[str, Tensor], moments: Mapping[str, Tensor], state: RunState, keep: int
) -> None:
    """Write the checkpoint of a step and remove all but the last `keep` and the best."""
    place = _place(folder, state.step)
    if place.exists():  # a damaged one, or we would have gone on from it
        shutil.rmtree(place)
    try:
        with written_whole(place) as unfinished:
            save_file(_contiguous(weights), unfinished / "model.safetensors")
            save_file(_contiguous(moments), unfinished / "optimizer.safetensors")
            (unfinished / "progress.json").write_text(json.dumps(asdict(state)) + "\n", encoding="utf-8")
            (unfinished / "checksums.json").write_text(json.dumps(_checksums(unfinished)) + "\n", encoding="utf-8")
    except SafetensorError as error:  # as it calls what the system says
        raise FolderError(f"Cannot write the checkpoint {place}: {error}. The earlier ones are as they were.") from None
    _prune(folder, state, keep)


def _prune(folder: Path, state: RunState, keep: int) -> None:
    """Remove what is neither among the last nor among the best; killed amid this, we leave nothing that looks whole.

    Checkpoints of later steps are damaged, or the run would have gone on from them.
    """
    for half_removed in folder.glob("*.unfinished"):
        shutil.rmtree(half_removed)
    last = [path for path in _checkpoints(folder) if path <= _place(folder, state.step)][-keep:]
    kept = {*last, *(_place(folder, step) for step in state.best.steps)}
    for old in _checkpoints(folder):
        if old not in kept:
            shutil.rmtree(old.rename(old.with_suffix(".unfinished")))


def load_latest(folder: Path, model: nn.Module, optimizer: torch.optim.Optimizer) -> RunState:
    """Restore the newest checkpoint that is whole, or return the beginning when there is none."""
    found = _checkpoints(folder)
    for path in reversed(found):
        try:
            return _load(path, model, optimizer)
        except DAMAGE as error:
            _complain(path, error)
    if found:
        raise FolderError(f"All checkpoints in {folder} are damaged. Delete them to begin again.")
    return RunState()


def load_best(folder: Path, model: nn.Module, best: Best) -> Score | None:
    """Restore the weights of the best step whose checkpoint is whole; where there is none, leave them as they are."""
    for score in best.scores:
        path = _place(folder, score.step)
        try:
            _check(path)
            model.load_state_dict(load_file(path / "model.safetensors"))
        except DAMAGE as error:
            _complain(path, error)
        else:
            return score
    return None


def saved_steps(folder: Path) -> dict[int, Path]:
    """The steps that have a checkpoint, the earliest first, with its folder."""
    return {int(path.name.removeprefix("step-")): path for path in _checkpoints(folder)}


def read_weights(path: Path) -> dict[str, Tensor] | None:
    """The weights of a checkpoint, or nothing, and a line that says so, if it is damaged."""
    try:
        _check(path)
        return load_file(path / "model.safetensors")
    except DAMAGE as error:
        _complain(path, error)
        return None


def _complain(path: Path, error: Exception) -> None:
    say(f"The checkpoint {path} is damaged and not used ({' '.join(str(error).split())}).")


def _load(path: Path, model: nn.Module, optimizer: torch.optim.Optimizer) -> RunState:
    """Restore a checkpoint, if its files are those that were written."""
    _check(path)
    values = json.loads((path / "progress.json").read_text(encoding="utf-8"))
    now = model.state_dict()
    weights = load_file(path / "model.safetensors")
    model.load_state_dict({name: part_of(weight, now[name]) for name, weight in weights.items()})
    _restore_optimizer(model, optimizer, load_file(path / "optimizer.safetensors"))
    best = Best.from_json(values["best"])
    return RunState(values["step"], Place(**values["place"]), Sums(**values["unlogged"]), best)


def _check(path: Path) -> None:
    for name, expected in json.loads((path / "checksums.json").read_text(encoding="utf-8")).items():
        if checksum(path / name) != expected:
            raise ValueError(f"{name} was changed or cut short")


def _checksums(folder: Path) -> dict[str, str]:
    return {path.name: checksum(path) for path in sorted(folder.iterdir())}


def _place(folder: Path, step: int) -> Path:
    return folder / f"step-{step:08d}"


def _checkpoints(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("step-*") if path.suffix != ".unfinished")


def optimizer_tensors(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The optimizer's state under the names of its parameters: `exp_avg/encoder.0.…`."""
    return {
        f"{part}/{name}": value
        for name, parameter in model.named_parameters()
        for part, value in optimizer.state[parameter].items()
    }


def _restore_optimizer(model: nn.Module, optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    parameters = dict(model.named_parameters())
    for key, value in tensors.items():
        part, _, name = key.partition("/")
        optimizer.state[parameters[name]][part] = part_of(value, parameters[name])  # the step too: Adam is fused


def _contiguous(tensors: Mapping[str, Any]) -> dict[str, Tensor]:
    return {name: tensor.detach().contiguous() for name, tensor in tensors.items()}
