"""The command `manyglot probe`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from manyglot.cli.options import AsJson, print_json
from manyglot.errors import SettingsError, did_you_mean
from manyglot.progress import print_status

if TYPE_CHECKING:
    from manyglot.probing.uriel import Exclusion

COLOR_CHOICES = ("family", "script")


def probe(
    models: Annotated[
        list[str],
        typer.Argument(help="Model folders, run folders or checkpoints; NAME=FOLDER sets a name.", metavar="MODEL…"),
    ],
    method: Annotated[
        str | None, typer.Option(metavar="METHOD", help="Probe only this guidance method, such as laa.")
    ] = None,
    voting_rule: Annotated[
        str,
        typer.Option(
            help="majority, or paper. With paper, a value needs more than k/2 votes, and the best k is reported."
        ),
    ] = "majority",
    k_values: Annotated[
        str | None,
        typer.Option(
            help="Numbers of nearest neighbors, comma-separated; default 1,3,5,7,9, or fewer if languages are few."
        ),
    ] = None,
    num_random_baselines: Annotated[int, typer.Option(min=2, help="Number of random baselines to average.")] = 100,
    num_permutations: Annotated[
        int, typer.Option(min=1, help="Number of permutations of the languages for the p-value.")
    ] = 200,
    seed: Annotated[int, typer.Option(min=0, help="Seed of random baselines and permutations.")] = 1,
    uriel_folder: Annotated[
        Path | None, typer.Option(help="The `data` folder of lang2vec, if the package is not installed.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="Image file for a plot of accuracy against k, or against steps: .png, .svg or .pdf."
        ),
    ] = None,
    language_map: Annotated[
        Path | None,
        typer.Option("--map", help="Image file for a map of the languages of one model: .png, .svg or .pdf."),
    ] = None,
    color_by: Annotated[str, typer.Option(help="Color the map by family or script.")] = "family",
    predict_missing: Annotated[
        str | None, typer.Option(metavar="LANGUAGE", help="Predict the features that URIEL lacks for this language.")
    ] = None,
    all_checkpoints: Annotated[
        bool, typer.Option("--all-checkpoints", help="Probe every checkpoint of the given runs.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Probe what a model has learned about its languages.

    Predicts their typological features (URIEL: syntax, phonology, phoneme inventory) from the nearest languages in the
    model's representations, and compares the accuracy with baselines that need no model.
    """
    from manyglot.probing.knn import VotingRule
    from manyglot.probing.typology_probe import ProbeSettings
    from manyglot.probing.uriel import exclusions_to_dict
    from manyglot.reports.checkpoint_probing import checkpoint_probing_markdown
    from manyglot.reports.language_similarity_plots import mantel_markdown
    from manyglot.reports.typology_probing import predicted_features_markdown, probing_markdown
    from manyglot.workflows import probe as workflow

    if voting_rule not in list(VotingRule):
        raise SettingsError(
            f"--voting-rule: '{voting_rule}' is not a voting rule. {did_you_mean(voting_rule, list(VotingRule))}"
        )
    settings = ProbeSettings(
        None if k_values is None else parse_k_values(k_values),
        VotingRule(voting_rule),
        num_random_baselines,
        num_permutations,
        seed,
    )
    if color_by not in COLOR_CHOICES:
        raise SettingsError(f"--color-by: '{color_by}' is not a choice. {did_you_mean(color_by, COLOR_CHOICES)}")
    if all_checkpoints:
        if predict_missing is not None or language_map is not None:
            raise SettingsError("--all-checkpoints cannot be combined with --predict-missing or --map. Remove them.")
        checkpoints, exclusions = workflow.probe_all_checkpoints(
            models, method, settings, uriel_folder=uriel_folder, output=output
        )
        if as_json:
            results = [checkpoint.to_dict() for checkpoint in checkpoints]
            return print_json({"exclusions": exclusions_to_dict(exclusions), "results": results})
        print(checkpoint_probing_markdown(checkpoints), end="")
        return _print_exclusions(exclusions)
    if predict_missing is not None:
        features = workflow.predict_features_of_language(
            models, predict_missing, method, settings, uriel_folder=uriel_folder
        )
        if as_json:
            return print_json(features.to_dict())
        used = features.representation
        label = f"{used.model_name} ({used.method})"
        return print(predicted_features_markdown(features.language, label, features.predicted), end="")
    probing = workflow.probe(
        models,
        method,
        settings,
        uriel_folder=uriel_folder,
        output=output,
        language_map=language_map,
        color_by=color_by,
    )
    if as_json:
        return print_json(probing.to_dict())
    mantel_results = mantel_markdown(probing.representations, probing.mantel_results)
    print(probing_markdown(probing.results, settings), mantel_results, sep="\n", end="")
    _print_exclusions(probing.exclusions)


def parse_k_values(text: str) -> tuple[int, ...]:
    """Parse the numbers of neighbors from text such as `1,3,5`."""
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise SettingsError(f"--k-values: '{text}' is not a list of numbers such as 1,3,5.") from None


def _print_exclusions(exclusions: Mapping[str, Exclusion]) -> None:
    from manyglot.reports.typology_probing import excluded_languages_text

    if exclusions:
        print_status(excluded_languages_text(exclusions))
