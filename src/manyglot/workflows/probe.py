"""`manyglot probe`: what a model has learnt about its languages, measured against typological features (URIEL)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from manyglot.batches.dataset import Dataset
from manyglot.config.experiment import read_experiment
from manyglot.errors import FolderError, SettingsError
from manyglot.files import StrPath, optional_path
from manyglot.model.folder import TrainedModel, load_model
from manyglot.probing.fill import Filled
from manyglot.probing.fill import fill as fill_features
from manyglot.probing.language_map import Mantel, correlations
from manyglot.probing.over_training import Moment, follow
from manyglot.probing.probe import ProbeResult, ProbeSettings, probe_all
from manyglot.probing.representations import Representation, named_folders, read_models, wanted_of
from manyglot.probing.uriel import Exclusion, exclusions_as_json, read_uriel
from manyglot.progress import say
from manyglot.reports.language_map import draw_map
from manyglot.reports.over_training import draw_over_training
from manyglot.reports.probing import check_picture, draw_probing
from manyglot.training.checkpoint import read_weights, saved_steps
from manyglot.workflows.train import new_model


@dataclass(frozen=True)
class Probing:
    """The results of several representations, in the same order, and the languages left out with the reasons."""

    representations: list[Representation]
    results: list[ProbeResult]
    mantels: list[list[Mantel]]
    """Correlations between distances in the model and distances between the languages."""
    left_out: dict[str, Exclusion]

    def as_json(self) -> dict[str, Any]:
        """All results as plain values."""
        probed = [
            result.as_json() | {"mantel": [each.as_json() for each in mantels]}
            for result, mantels in zip(self.results, self.mantels, strict=True)
        ]
        return {"left_out": exclusions_as_json(self.left_out), "results": probed}


@dataclass(frozen=True)
class FilledFeatures:
    """The predicted features of a language and the representation they are predicted from."""

    language: str
    representation: Representation
    filled: list[Filled]

    def as_json(self) -> dict[str, Any]:
        """The predictions as plain values."""
        filled = [each.as_json() for each in self.filled]
        return {"language": self.language, "method": self.representation.method, "filled": filled}


def probe(
    models: Sequence[str],
    method: str | None = None,
    settings: ProbeSettings | None = None,
    *,
    uriel: StrPath | None = None,
    output: StrPath | None = None,
    language_map: StrPath | None = None,
    colour: str = "family",
) -> Probing:
    """Predict typological features from the nearest languages in a model, beside predictions without a model.

    Models are `[NAME=]FOLDER`. Accuracy against k is drawn into `output`, the languages of one model into
    `language_map`.
    """
    settings = settings or ProbeSettings()
    output, language_map = optional_path(output), optional_path(language_map)
    for picture in filter(None, (output, language_map)):
        check_picture(picture)
    database = read_uriel(optional_path(uriel))
    representations = read_models(models, method)
    if language_map is not None:
        draw_map(database, _only(representations, "--map"), colour, language_map)
    results, left_out = probe_all(database, representations, settings)
    if output is not None:
        draw_probing(results, settings, output)
    mantels = [correlations(database, each, settings.num_permutations, settings.seed) for each in representations]
    return Probing(representations, results, mantels, left_out)


def probe_over_training(
    runs: Sequence[str],
    method: str | None = None,
    settings: ProbeSettings | None = None,
    *,
    uriel: StrPath | None = None,
    output: StrPath | None = None,
) -> tuple[list[Moment], dict[str, Exclusion]]:
    """Probe the checkpoints of runs; return the results by step, and the languages left out with the reasons."""
    output = optional_path(output)
    if output is not None:
        check_picture(output)
    database = read_uriel(optional_path(uriel))
    folders = named_folders(runs).items()
    steps = ((step, wanted_of(model, name, method)) for name, run in folders for step, model in over_training(run))
    moments, left_out = follow(database, steps, settings or ProbeSettings())
    if output is not None:
        draw_over_training(moments, output)
    return moments, left_out


def fill(
    models: Sequence[str],
    language: str,
    method: str | None = None,
    settings: ProbeSettings | None = None,
    *,
    uriel: StrPath | None = None,
) -> FilledFeatures:
    """Predict the features of a language that URIEL is missing, from one representation of one model."""
    database = read_uriel(optional_path(uriel))
    representation = _only(read_models(models, method), "--fill")
    code, filled = fill_features(database, representation, language, (settings or ProbeSettings()).neighbours)
    return FilledFeatures(code, representation, filled)


def _only(representations: Sequence[Representation], option: str) -> Representation:
    """The first representation of the only model; says how to choose another."""
    first = representations[0]
    if any(each.model != first.model for each in representations):
        raise SettingsError(f"{option} takes one model. Give one.")
    if len(representations) > 1:
        others = ", ".join(each.method for each in representations[1:])
        say(f"{option} goes by {first.method}; --representation has it go by {others}.")
    return first


def over_training(run: Path) -> Iterator[tuple[int, TrainedModel]]:
    """Yield each checkpointed step of a run with its model, earliest first; it is one model, reloaded at each step.

    The run need not be finished; an unfinished run has the languages of its data.
    """
    if not run.exists():
        raise FolderError(f"{run} does not exist. Give the folder of a run, that of `run` in its settings.")
    steps = saved_steps(run / "checkpoints")
    if not (run / "config.yaml").exists() or not steps:
        inside = run.name == "model" and (run.parent / "checkpoints").is_dir()
        hint = f"Did you mean {run.parent}?" if inside else "Give the folder of a run, that of `run` in its settings."
        raise FolderError(f"{run} has no checkpoints. {hint}")
    if len(steps) == 1:
        raise FolderError(
            f"{run} has one checkpoint only, of step {min(steps):,}. A training keeps as many as "
            f"training.keep_checkpoints says; nothing can be followed through one."
        )
    trained, any_whole = _model_of(run), False
    for step, path in steps.items():
        if (weights := read_weights(path)) is None:
            continue
        any_whole = True
        try:
            trained.model.load_state_dict(weights)
        except RuntimeError:
            raise FolderError(f"The checkpoint {path} is not of the model that {run} describes.") from None
        yield step, trained
    if not any_whole:
        raise FolderError(f"All checkpoints of {run} are damaged.")


def _model_of(run: Path) -> TrainedModel:
    """The trained model of a run, or an untrained one if the run is not finished."""
    if (run / "model").exists():
        return load_model(run / "model")
    experiment = read_experiment(run / "config.yaml")
    dataset = Dataset(experiment.data)
    model = new_model(experiment, dataset)
    return TrainedModel(model, dataset.vocabulary, tuple(dataset.supervised), experiment.resolved())
