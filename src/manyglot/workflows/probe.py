"""`manyglot probe`: compare the language representations of a model with typological features (URIEL)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from manyglot.argument_types import checks_argument_types
from manyglot.errors import FolderError, SettingsError
from manyglot.evaluation.run_specs import Folders, to_run_specs
from manyglot.files import StrPath, optional_path
from manyglot.model.model_folder import TrainedModel
from manyglot.model.run_models import iter_intact_checkpoints, require_checkpoints
from manyglot.probing.checkpoint_probe import CheckpointProbeResult, probe_checkpoints
from manyglot.probing.knn import DEFAULT_K_VALUES
from manyglot.probing.language_distance_analysis import MantelResult, mantel_tests_with_uriel
from manyglot.probing.language_representations import (
    LanguageRepresentation,
    load_representations_of_models,
    parse_model_specs,
    require_representations,
)
from manyglot.probing.missing_features import PredictedFeature, predict_missing_features
from manyglot.probing.typology_probe import ProbeResult, ProbeSettings, probe_representations
from manyglot.probing.uriel import Exclusion, exclusions_to_dict, load_uriel
from manyglot.progress import print_status
from manyglot.reports.checkpoint_probing import plot_checkpoint_probing
from manyglot.reports.displayable import Displayable, DisplayPart
from manyglot.reports.language_similarity_plots import plot_language_similarity
from manyglot.reports.typology_probing import (
    check_can_plot,
    excluded_languages_text,
    plot_accuracy_by_k,
    probing_parts,
)


@dataclass(frozen=True, repr=False)
class ProbingResults(Displayable):
    """Results with one list entry per representation, and the excluded languages with the reasons."""

    representations: list[LanguageRepresentation]
    results: list[ProbeResult]
    mantel_results: list[list[MantelResult]]
    """Mantel tests between the distances in the model and the distances in URIEL."""
    exclusions: dict[str, Exclusion]
    settings: ProbeSettings

    def display_parts(self) -> Iterator[DisplayPart]:
        """Yield the table of accuracies, its notes and the excluded languages."""
        yield from probing_parts(self.results, self.settings)
        if self.exclusions:
            yield excluded_languages_text(self.exclusions)

    def to_dict(self) -> dict[str, Any]:
        """Return all results as plain values."""
        probed = [
            result.to_dict() | {"mantel_results": [mantel.to_dict() for mantel in mantel_results]}
            for result, mantel_results in zip(self.results, self.mantel_results, strict=True)
        ]
        return {"exclusions": exclusions_to_dict(self.exclusions), "results": probed}


@dataclass(frozen=True)
class MissingFeaturePredictions:
    """The predicted features of a language and the representation they are predicted from."""

    language: str
    representation: LanguageRepresentation
    predicted: list[PredictedFeature]

    def to_dict(self) -> dict[str, Any]:
        """Return the predictions as plain values."""
        predicted = [feature.to_dict() for feature in self.predicted]
        return {"language": self.language, "method": self.representation.method, "predicted": predicted}


@checks_argument_types
def probe(
    models: Folders,
    method: str | None = None,
    settings: ProbeSettings | None = None,
    *,
    uriel_folder: StrPath | None = None,
    output: StrPath | None = None,
    language_map: StrPath | None = None,
    color_by: str = "family",
) -> ProbingResults:
    """Predict typological features from the nearest languages in a model, and compare with baselines.

    Models are folders, or a dictionary of folders by name. Text such as `ours=FOLDER` works too. With `output`, plot
    accuracy against k; with `language_map`, plot the languages of one model.
    """
    settings = settings or ProbeSettings()
    output, language_map = optional_path(output), optional_path(language_map)
    for picture in filter(None, (output, language_map)):
        check_can_plot(picture)
    representations = load_representations_of_models(to_run_specs(models), method)
    database = load_uriel(optional_path(uriel_folder))
    if language_map is not None:
        plot_language_similarity(database, _require_one_model(representations, "--map"), color_by, language_map)
    results, exclusions = probe_representations(database, representations, settings)
    if output is not None:
        plot_accuracy_by_k(results, output)
    mantel_results = [
        mantel_tests_with_uriel(database, representation, settings.num_permutations, settings.seed)
        for representation in representations
    ]
    return ProbingResults(representations, results, mantel_results, exclusions, settings)


def probe_all_checkpoints(
    runs: Folders,
    method: str | None = None,
    settings: ProbeSettings | None = None,
    *,
    uriel_folder: StrPath | None = None,
    output: StrPath | None = None,
) -> tuple[list[CheckpointProbeResult], dict[str, Exclusion]]:
    """Probe every checkpoint of the runs; return the results, and the excluded languages with the reasons.

    With `output`, plot the accuracies against the steps.
    """
    output = optional_path(output)
    if output is not None:
        check_can_plot(output)
    run_by_name = parse_model_specs(to_run_specs(runs))
    for run in run_by_name.values():
        require_checkpoints(run)
    database = load_uriel(optional_path(uriel_folder))
    representations_by_step = (
        (step, require_representations(model, name, method))
        for name, run in run_by_name.items()
        for step, model in iter_checkpoint_models(run)
    )
    results, exclusions = probe_checkpoints(database, representations_by_step, settings or ProbeSettings())
    if output is not None:
        plot_checkpoint_probing(results, output)
    return results, exclusions


def predict_features_of_language(
    models: Folders,
    language: str,
    method: str | None = None,
    settings: ProbeSettings | None = None,
    *,
    uriel_folder: StrPath | None = None,
) -> MissingFeaturePredictions:
    """Predict the features that URIEL lacks for a language, from one representation of one model."""
    representation = _require_one_model(
        load_representations_of_models(to_run_specs(models), method), "--predict-missing"
    )
    database = load_uriel(optional_path(uriel_folder))
    k_values = (settings or ProbeSettings()).k_values or DEFAULT_K_VALUES
    code, predicted = predict_missing_features(database, representation, language, k_values)
    return MissingFeaturePredictions(code, representation, predicted)


def _require_one_model(representations: Sequence[LanguageRepresentation], option: str) -> LanguageRepresentation:
    """Return the first representation of the only model; report how to choose another."""
    first = representations[0]
    if any(other.model_name != first.model_name for other in representations):
        raise SettingsError(f"{option} takes one model. Give only one.")
    if len(representations) > 1:
        others = ", ".join(other.method for other in representations[1:])
        print_status(f"{option} uses the representation of {first.method}. Choose another with --method: {others}.")
    return first


def iter_checkpoint_models(run: Path) -> Iterator[tuple[int, TrainedModel]]:
    """Yield the step and the model of each intact checkpoint of a run, earliest first. The run may be unfinished."""
    paths = require_checkpoints(run)
    if len(paths) == 1:
        raise FolderError(
            f"{run} has only one checkpoint, {paths[0].name}, and --all-checkpoints needs several. "
            f"Train with a larger training.keep_last_checkpoints."
        )
    any_intact = False
    for trained in iter_intact_checkpoints(paths):
        any_intact = True
        yield int(trained.training_info["step"]), trained
    if not any_intact:
        raise FolderError(f"All checkpoints of {run} are damaged.")
