"""The language representations a model has learned: tag embeddings, matrices, gains and biases of its guidance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manyglot.errors import FolderError, SettingsError
from manyglot.model.model_folder import TrainedModel
from manyglot.model.run_models import is_checkpoint, load_any_model, run_folder_of


@dataclass(frozen=True)
class LanguageRepresentation:
    """A vector or matrix for each language of a model, from one guidance method."""

    model_name: str
    method: str
    """The guidance method, such as laa."""
    codes: tuple[str, ...]
    values: NDArray[Any]
    """One row for each code."""


def distinct_representations(trained: TrainedModel, model_name: str) -> list[LanguageRepresentation]:
    """Return the representations of a model, possibly none; one shared by two methods (token and lee) occurs once."""
    distinct: list[LanguageRepresentation] = []
    for representation in _all_representations(trained, model_name):
        if not any(np.array_equal(representation.values, other.values, equal_nan=True) for other in distinct):
            distinct.append(representation)
    return distinct


def load_representations(
    folder: Path, model_name: str | None = None, method: str | None = None
) -> list[LanguageRepresentation]:
    """Load the representations of a model, or only one method's; raise if there is none.

    The folder is a model folder, a run folder or a checkpoint.
    """
    return require_representations(load_any_model(folder), model_name or default_model_name(folder), method)


def require_representations(
    trained: TrainedModel, model_name: str, method: str | None = None
) -> list[LanguageRepresentation]:
    """Return the representations of a model, or only one method's; raise if there is none or it is not finite."""
    by_method = {r.method: r for r in _all_representations(trained, model_name)}
    if not by_method:
        raise FolderError(
            f"{model_name} has no language representations: its guidance {_guidance_names(trained.config)} "
            f"does not learn any. Probe a model with token, lee, laa, adapter, laln or lalt."
        )
    if method is not None and method not in by_method:
        raise SettingsError(f"{model_name} has no representation '{method}'. It has {', '.join(by_method)}.")
    for representation in by_method.values():
        if not np.isfinite(representation.values).all():
            raise FolderError(
                f"{model_name}: the representation of {representation.method} is not finite. Training diverged."
            )
    return distinct_representations(trained, model_name) if method is None else [by_method[method]]


def load_representations_of_models(
    model_specs: Sequence[str], method: str | None = None
) -> list[LanguageRepresentation]:
    """Load the representations of models given as FOLDER or NAME=FOLDER: all of them, or only one method's."""
    folders = parse_model_specs(model_specs)
    return [r for name, folder in folders.items() for r in load_representations(folder, name, method)]


def parse_model_specs(model_specs: Sequence[str]) -> dict[str, Path]:
    """Parse FOLDER or NAME=FOLDER specifications of models or runs into folders by name."""
    folders: dict[str, Path] = {}
    for spec in model_specs:
        name, equals, path = spec.rpartition("=") if not Path(spec).exists() else ("", "", spec)
        if not path or (equals and not name):
            raise SettingsError(f"'{spec}' is not a folder. Give FOLDER or NAME=FOLDER.")
        model_name = name if equals else default_model_name(Path(path))
        if model_name in folders:
            raise SettingsError(
                f"Two models are called '{model_name}'. Name them, as in one={folders[model_name]} two={path}."
            )
        folders[model_name] = Path(path)
    return folders


def default_model_name(folder: Path) -> str:
    """Return the name of a model's folder. For the `model` or a checkpoint of a run, it contains the run's name."""
    path = folder.absolute()
    if is_checkpoint(folder):
        return f"{run_folder_of(folder).name}/{path.name}"
    return path.parent.name if path.name == "model" and path.parent.name else path.name


def _all_representations(trained: TrainedModel, model_name: str) -> list[LanguageRepresentation]:
    codes = trained.vocabulary.languages.codes
    return [
        LanguageRepresentation(model_name, method, codes, values.float().cpu().numpy())
        for method, values in trained.model.language_representations().items()
    ]


def _guidance_names(config: Any) -> str:
    names = [str(settings.get("method")) for settings in config.get("guidance", ()) if isinstance(settings, dict)]
    return f"({', '.join(names)})" if names else "(none)"
