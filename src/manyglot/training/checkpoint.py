"""Checkpoints: model folders that also have everything a run needs to resume exactly.

progress.json            the run state
optimizer.safetensors    the optimizer's moments
checksums.json           the seals of these files and of format.json, which has those of the model's files
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch
from safetensors import SafetensorError
from torch import Tensor, nn

from manyglot.batches.loader import DataPosition
from manyglot.checksums import seal_files
from manyglot.errors import FolderError, ManyglotError, UnreadableFileError
from manyglot.files import read_json_object, write_json
from manyglot.folders import atomic_folder
from manyglot.model.model_folder import ModelDescription, write_model_files
from manyglot.model.run_models import CHECKPOINT_FILES, checkpoint_folder, list_checkpoints, verify_checkpoint
from manyglot.model.weights_file import read_tensors, save_tensors
from manyglot.progress import print_status
from manyglot.training.best_steps import BestSteps, StepScore
from manyglot.training.fsdp import shard_like
from manyglot.training.loss import LossTotals

DAMAGED_CHECKPOINT_ERRORS = (ManyglotError, OSError, ValueError, KeyError, TypeError, RuntimeError, SafetensorError)
"""Exceptions that reading a damaged checkpoint may raise."""


@dataclass(frozen=True)
class RunState:
    """Progress of a run. Random numbers depend only on seed and step, so no generator state is stored."""

    step: int = 0
    data_position: DataPosition = field(default_factory=DataPosition)
    unlogged_losses: LossTotals = field(default_factory=LossTotals)
    """Totals since the last line of the log."""
    best_steps: BestSteps = field(default_factory=BestSteps)
    """The best steps so far; they determine which checkpoints to keep and when to stop early."""


def save_checkpoint(
    folder: Path,
    weights: Mapping[str, Tensor],
    moments: Mapping[str, Tensor],
    state: RunState,
    keep_last: int,
    description: ModelDescription,
) -> None:
    """Write a checkpoint atomically, then delete all but the best and the last `keep_last` checkpoints."""
    path = checkpoint_folder(folder, state.step)
    training_info = {"steps": state.step, "step": state.step, "best_metric": None, "checkpoint": path.name}
    if path.exists():  # it is damaged, otherwise the run would have resumed from it
        shutil.rmtree(path)
    with atomic_folder(path) as unfinished:
        write_model_files(unfinished, weights, description, training_info)
        save_tensors(unfinished / "optimizer.safetensors", moments)
        write_json(unfinished / "progress.json", asdict(state), indent=None)
        write_json(unfinished / "checksums.json", seal_files(unfinished, CHECKPOINT_FILES))
    prune_checkpoints(folder, state, keep_last)


def prune_checkpoints(folder: Path, state: RunState, keep_last: int) -> None:
    """Delete all but the best and the most recent checkpoints.

    A folder is renamed before its deletion, so a kill leaves nothing that looks intact. Checkpoints of later steps are
    damaged, otherwise the run would have resumed from them.
    """
    for unfinished in folder.glob("*.unfinished"):
        shutil.rmtree(unfinished)
    last = [path for path in list_checkpoints(folder) if path <= checkpoint_folder(folder, state.step)][-keep_last:]
    to_keep = {*last, *(checkpoint_folder(folder, step) for step in state.best_steps.steps)}
    for old in list_checkpoints(folder):
        if old not in to_keep:
            shutil.rmtree(old.rename(old.with_suffix(".unfinished")))


def load_latest_intact_checkpoint(folder: Path, model: nn.Module, optimizer: torch.optim.Optimizer) -> RunState:
    """Restore the newest intact checkpoint. Return the initial state if there is none.

    Raise a FolderError if all are damaged, or if the system cannot read one: it may be intact.
    """
    paths = list_checkpoints(folder)
    for path in reversed(paths):
        try:
            return _load_checkpoint(path, model, optimizer)
        except UnreadableFileError:
            raise
        except DAMAGED_CHECKPOINT_ERRORS as error:
            _warn_damaged(path, error)
    if paths:
        raise FolderError(f"All checkpoints in {folder} are damaged. Delete them to start again.")
    return RunState()


def load_best_weights(folder: Path, model: nn.Module, best_steps: BestSteps) -> StepScore | None:
    """Load the weights of the best step with an intact checkpoint and return its score.

    If there is none, return None and leave the weights unchanged.
    """
    for score in best_steps.scores:
        path = checkpoint_folder(folder, score.step)
        try:
            verify_checkpoint(path)
            model.load_state_dict(read_tensors(path / "model.safetensors"))
        except UnreadableFileError:
            raise
        except DAMAGED_CHECKPOINT_ERRORS as error:
            _warn_damaged(path, error)
        else:
            return score
    return None


def _warn_damaged(path: Path, error: Exception) -> None:
    print_status(f"The checkpoint {path} is damaged and skipped ({' '.join(str(error).split())}).")


def _load_checkpoint(path: Path, model: nn.Module, optimizer: torch.optim.Optimizer) -> RunState:
    """Restore a checkpoint after verifying its checksums."""
    verify_checkpoint(path)
    values = read_json_object(path / "progress.json")
    current = model.state_dict()
    weights = read_tensors(path / "model.safetensors")
    model.load_state_dict({name: shard_like(weight, current[name]) for name, weight in weights.items()})
    _restore_optimizer(model, optimizer, read_tensors(path / "optimizer.safetensors"))
    data_position, unlogged_losses = DataPosition(**values["data_position"]), LossTotals(**values["unlogged_losses"])
    return RunState(values["step"], data_position, unlogged_losses, BestSteps.from_dict(values["best_steps"]))


def flatten_optimizer_state(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Return the optimizer state as a flat dict, with keys such as `exp_avg/encoder.0.…`."""
    return {
        f"{key}/{name}": value
        for name, parameter in model.named_parameters()
        for key, value in optimizer.state.get(parameter, {}).items()
    }


def _restore_optimizer(model: nn.Module, optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    parameters = dict(model.named_parameters())
    for path, value in tensors.items():
        key, _, name = path.partition("/")
        # This also moves Adam's step to the device, where the fused optimizer needs it.
        optimizer.state[parameters[name]][key] = shard_like(value, parameters[name])
