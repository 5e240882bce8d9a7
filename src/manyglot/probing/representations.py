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
    kept: dict[str, NDArray[Any]] = {}
    for method, value in trained.model.representations().items():
        values = value.float().cpu().numpy()
        if not any(np.array_equal(values, other, equal_nan=True) for other in kept.values()):
            kept[method] = values
    codes = trained.vocabulary.languages.codes
    return [Representation(name, method, codes, values) for method, values in kept.items()]


def read_representations(folder: Path, name: str | None = None) -> list[Representation]:
    """Those of a model folder; refuse one that has none."""
    trained = load_model(folder)
    found = representations_of(trained, name or model_name(folder))
    if not found:
        raise FolderError(
            f"{folder} has no representations of its languages: its guidance {_methods(trained.config)} keeps none. "
            f"Probe a model with token, lee, laa, adapter, laln or lalt."
        )
    for each in found:
        if not np.isfinite(each.values).all():
            raise FolderError(
                f"{folder}: what {each.method} has learnt of languages is not finite. The training has failed."
            )
    return found


def read_models(models: Sequence[str]) -> list[Representation]:
    """The representations of models, each given as a folder or as NAME=FOLDER."""
    folders: dict[str, Path] = {}
    for given in models:
        name, equals, path = given.rpartition("=") if not Path(given).exists() else ("", "", given)
        label = name if equals else model_name(Path(path))
        if label in folders:
            raise SettingsError(f"Two models are called '{label}'. Name them, as in one={folders[label]} two={path}.")
        folders[label] = Path(path)
    return [each for label, folder in folders.items() for each in read_representations(folder, label)]


def model_name(folder: Path) -> str:
    """What to call a model: its folder, or the run that a folder `model` belongs to."""
    place = folder.absolute()
    return place.parent.name if place.name == "model" and place.parent.name else place.name


def _methods(config: Any) -> str:
    names = [str(each.get("method")) for each in config.get("guidance", ()) if isinstance(each, dict)]
    return f"({', '.join(names)})" if names else "(none)"
