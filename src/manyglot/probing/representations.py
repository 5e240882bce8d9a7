"""What models have learnt of each language: tags, matrices, gains and biases, whatever their guidance keeps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manyglot.errors import FolderError, SettingsError
from manyglot.model.folder import TrainedModel, load_model


@dataclass(frozen=True)
class Representation:
    """One representation of a model's languages: a vector or a matrix for each."""

    model: str
    method: str
    """The guidance that it belongs to, such as laa."""
    codes: tuple[str, ...]
    values: NDArray[Any]
    """Languages first."""


def representations_of(trained: TrainedModel, name: str) -> list[Representation]:
    """Those of a model, if it has any. What two methods share, as the tags of token and lee, is there once."""
    kept: list[Representation] = []
    for each in _all_of(trained, name):
        if not any(np.array_equal(each.values, other.values, equal_nan=True) for other in kept):
            kept.append(each)
    return kept


def read_representations(folder: Path, name: str | None = None, method: str | None = None) -> list[Representation]:
    """Those of a model folder, or that of one method; refuse a model that has none."""
    return wanted_of(load_model(folder), name or model_name(folder), method)


def wanted_of(trained: TrainedModel, name: str, method: str | None = None) -> list[Representation]:
    """Those of a model, or that of one method; refuse a model that has none."""
    found = {each.method: each for each in _all_of(trained, name)}
    if not found:
        raise FolderError(
            f"{name} has no representations of its languages: its guidance {_methods(trained.config)} keeps none. "
            f"Probe a model with token, lee, laa, adapter, laln or lalt."
        )
    if method is not None and method not in found:
        raise SettingsError(f"{name} has no representation '{method}'; it has {', '.join(found)}.")
    for each in found.values():
        if not np.isfinite(each.values).all():
            raise FolderError(
                f"{name}: what {each.method} has learnt of languages is not finite. The training has failed."
            )
    return representations_of(trained, name) if method is None else [found[method]]


def read_models(models: Sequence[str], method: str | None = None) -> list[Representation]:
    """The representations of models, each given as a folder or as NAME=FOLDER: all of them, or that of one method."""
    named = named_folders(models).items()
    return [each for label, folder in named for each in read_representations(folder, label, method)]


def named_folders(models: Sequence[str]) -> dict[str, Path]:
    """Folders of models or runs by their names, each given as a folder or as NAME=FOLDER."""
    folders: dict[str, Path] = {}
    for given in models:
        name, equals, path = given.rpartition("=") if not Path(given).exists() else ("", "", given)
        if not path or (equals and not name):
            raise SettingsError(f"'{given}' is not a folder. Give FOLDER or NAME=FOLDER.")
        label = name if equals else model_name(Path(path))
        if label in folders:
            raise SettingsError(f"Two models are called '{label}'. Name them, as in one={folders[label]} two={path}.")
        folders[label] = Path(path)
    return folders


def model_name(folder: Path) -> str:
    """What to call a model: its folder, or the run that a folder `model` belongs to."""
    place = folder.absolute()
    return place.parent.name if place.name == "model" and place.parent.name else place.name


def _all_of(trained: TrainedModel, name: str) -> list[Representation]:
    codes, found = trained.vocabulary.languages.codes, trained.model.representations()
    return [Representation(name, method, codes, value.float().cpu().numpy()) for method, value in found.items()]


def _methods(config: Any) -> str:
    names = [str(each.get("method")) for each in config.get("guidance", ()) if isinstance(each, dict)]
    return f"({', '.join(names)})" if names else "(none)"
