"""`manyglot average`: average the weights of several checkpoints of a run into one model."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from manyglot.argument_types import checks_argument_types
from manyglot.checksums import file_sha256
from manyglot.config.base_settings import parse_settings
from manyglot.config.experiment import Experiment
from manyglot.errors import FolderError, SettingsError
from manyglot.files import StrPath, is_empty_folder
from manyglot.model.initial_model import started_from
from manyglot.model.model_folder import TrainedModel, save_model
from manyglot.model.run_models import (
    checkpoint_folder,
    iter_intact_checkpoints,
    load_model_with_step,
    read_run_progress,
    require_checkpoints,
)
from manyglot.model.run_paths import is_run_folder
from manyglot.model.weights_file import stored_dtype
from manyglot.progress import print_status
from manyglot.training.run_folder import changed_training_settings, read_saved_settings

MIN_CHECKPOINTS = 2
"""An average of fewer checkpoints is a copy."""


class CheckpointSelection(NamedTuple):
    """How to select the checkpoints of a run, and how many."""

    by: Literal["last", "best"]
    number: int

    def candidates(self, run: Path) -> list[Path]:
        """Return the checkpoints to select from, the first choice first; some may be damaged.

        Old checkpoints that the run keeps only because they are among the best are not among the last.
        """
        existing = require_checkpoints(run)
        if self.by == "last":
            settings = parse_settings(Experiment, read_saved_settings(run))
            num_kept = settings.training.keep_last_checkpoints
            return existing[: -num_kept - 1 : -1]
        best = [checkpoint_folder(run / "checkpoints", best.step) for best in read_run_progress(run).best]
        return [path for path in best if path in existing]


@checks_argument_types
def average(
    run_or_checkpoints: StrPath | Sequence[StrPath],
    output: StrPath | None = None,
    *,
    last: int | None = None,
    best: int | None = None,
) -> Path:
    """Write a model whose weights are the mean of several checkpoints, and return its folder.

    Give a run folder and the number of its `last` or `best` checkpoints, or the folders of at least two checkpoints.
    Without `output`, the model of a run folder is written into it, for example to `averaged-last-5`.
    """
    if isinstance(run_or_checkpoints, str | os.PathLike):
        run_or_checkpoints = [run_or_checkpoints]
    folders = [Path(path) for path in run_or_checkpoints]
    selection = _parse_selection(folders, last, best)
    if selection is not None:
        output = folders[0] / f"averaged-{selection.by}-{selection.number}" if output is None else output
    elif output is None:
        raise SettingsError(
            "Give the folder to write (--output), or the last or best checkpoints of a run (--last, --best)."
        )
    output = Path(output)
    if output.exists() and not is_empty_folder(output):
        raise FolderError(f"{output} already exists. Choose another folder, or delete it.")
    mean = WeightMean()
    if selection is None:
        for folder in folders:
            mean.add(load_model_with_step(folder))
    else:
        for trained in iter_intact_checkpoints(selection.candidates(folders[0])):
            mean.add(trained)
            if len(mean.models) == selection.number:
                break
        else:
            found = "1 intact checkpoint" if len(mean.models) == 1 else f"{len(mean.models)} intact checkpoints"
            raise FolderError(
                f"{folders[0]} has {found} to average, but --{selection.by} asks for {selection.number}. "
                f"A larger training.keep_{selection.by}_checkpoints keeps more during training."
            )
    averaged = mean.to_model("given" if selection is None else selection.by)
    save_model(output, averaged, mean.dtype())
    steps = ", ".join(f"{step:,}" for step in averaged.training_info["averaged_steps"])
    print_status(f"The model has the mean weights of steps {steps}.")
    return output


def _parse_selection(folders: Sequence[Path], last: int | None, best: int | None) -> CheckpointSelection | None:
    """Return the selection that the options ask for; None if the folders are the checkpoints themselves."""
    if last is not None and best is not None:
        raise SettingsError("--last and --best exclude each other. Give one of them.")
    if last is None and best is None:
        if runs := [folder for folder in folders if is_run_folder(folder)]:
            raise SettingsError(
                f"{runs[0]} is a run folder. Select its checkpoints with --last N or --best N (last=N, best=N)."
            )
        if len(set(map(Path.absolute, folders))) < max(len(folders), MIN_CHECKPOINTS):
            raise SettingsError("Averaging needs at least two different checkpoints. Give their folders.")
        return None
    selection = CheckpointSelection("last", last) if last is not None else CheckpointSelection("best", best or 0)
    if selection.number < MIN_CHECKPOINTS:
        raise SettingsError(f"--{selection.by}: averaging needs at least two checkpoints, not {selection.number}.")
    if len(folders) > 1:
        raise SettingsError(f"--{selection.by} takes one run folder. Give checkpoints without it.")
    return selection


class WeightMean:
    """The mean of the weights of models of one training, summed in float64 one model at a time."""

    def __init__(self) -> None:
        self.models: list[TrainedModel] = []
        """The models so far, without their weights except those of the first."""
        self._sums: dict[str, Tensor] = {}

    def add(self, trained: TrainedModel) -> None:
        """Add the weights of a model; raise an error if it is not from the same training as the first."""
        weights = trained.model.state_dict()
        if not self.models:
            self.models.append(trained)
            self._sums = {name: weight.double() for name, weight in weights.items()}
            return
        first = self.models[0]
        if different := _differences(first, trained):
            raise FolderError(
                f"{trained.folder} and {first.folder} have different {', '.join(different)}. Average checkpoints of "
                f"one run."
            )
        for name, weight in weights.items():
            self._sums[name] += weight
        self.models.append(replace(trained, model=first.model))

    def to_model(self, selected_by: str) -> TrainedModel:
        """Return the first model with the mean weights. Its training information lists the checkpoints."""
        first, model = self.models[0], self.models[0].model
        model.load_state_dict({name: total / len(self.models) for name, total in self._sums.items()})
        by_step = sorted(self.models, key=lambda trained: trained.training_info["step"])
        training_info = {
            "steps": max(trained.training_info["steps"] for trained in self.models),
            "step": by_step[-1].training_info["step"],
            "best_metric": None,
            "averaged_steps": [trained.training_info["step"] for trained in by_step],
            **started_from(by_step[-1].config),
            "averaged_checkpoints": [str(trained.folder) for trained in by_step],
            "selected_by": selected_by,
        }
        return replace(first, model=model, training_info=training_info)

    def dtype(self) -> torch.dtype:
        """Return the type in which the weights of the first model are stored."""
        folder = self.models[0].folder
        assert folder is not None
        return stored_dtype(folder / "model.safetensors")


def _differences(one: TrainedModel, other: TrainedModel) -> list[str]:
    """Return what shows that two models are not from the same training: settings and files."""
    changed = changed_training_settings(other.config, parse_settings(Experiment, dict(one.config)))
    assert one.folder is not None
    assert other.folder is not None
    pairs = {name: (one.folder / name, other.folder / name) for name in ("subwords.model", "languages.json")}
    return changed + [name for name, (a, b) in pairs.items() if file_sha256(a) != file_sha256(b)]
