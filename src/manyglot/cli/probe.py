"""The command `manyglot probe`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from manyglot.cli.options import AsJson, print_json
from manyglot.errors import SettingsError, suggest
from manyglot.progress import say

if TYPE_CHECKING:
    from manyglot.probing.uriel import Exclusion

COLOURED_BY = ("family", "script")


def probe(
    models: Annotated[
        list[str],
        typer.Argument(help="Model folders, or those of runs; NAME=FOLDER gives one a name.", metavar="MODEL…"),
    ],
    representation: Annotated[
        str | None, typer.Option(metavar="METHOD", help="Only that of one method, such as laa.")
    ] = None,
    vote: Annotated[
        str, typer.Option(help="majority, or paper: more than k/2 votes and the best k taken afterwards.")
    ] = "majority",
    neighbours: Annotated[str, typer.Option(help="Numbers of neighbours, k.")] = "1,3,5,7,9",
    random: Annotated[int, typer.Option(min=2, help="Draws of random vectors.")] = 100,
    permutations: Annotated[int, typer.Option(min=1, help="Of the languages, for the p-value.")] = 200,
    seed: Annotated[int, typer.Option(min=0, help="Of draws and permutations.")] = 1,
    uriel: Annotated[Path | None, typer.Option(help="The folder `data` of lang2vec, if it is not installed.")] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Draw accuracy against k, or the steps: .png, .svg or .pdf.")
    ] = None,
    language_map: Annotated[
        Path | None, typer.Option("--map", help="Draw the languages of one model: .png, .svg or .pdf.")
    ] = None,
    colour: Annotated[str, typer.Option(help="Of the map: by family or script.")] = "family",
    fill: Annotated[
        str | None, typer.Option(metavar="LANGUAGE", help="Predict the features that URIEL does not have of it.")
    ] = None,
    over_training: Annotated[
        bool, typer.Option("--over-training", help="Follow runs through their checkpoints.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Ask what a model has learnt of its languages.

    Predicts their typological features (URIEL: syntax, phonology, inventory of sounds) from those of the languages
    whose representations in the model are nearest, beside what is told without a model.
    """
    from manyglot.probing.neighbours import Vote
    from manyglot.probing.probe import ProbeSettings
    from manyglot.probing.uriel import exclusions_as_json
    from manyglot.reports.language_map import mantel_text
    from manyglot.reports.over_training import over_training_text
    from manyglot.reports.probing import filled_text, probing_text
    from manyglot.workflows import probe as workflow

    if vote not in list(Vote):
        raise SettingsError(f"--vote: '{vote}' is not a vote. {suggest(vote, list(Vote))}")
    settings = ProbeSettings(read_numbers(neighbours), Vote(vote), random, permutations, seed)
    if colour not in COLOURED_BY:
        raise SettingsError(f"--colour: '{colour}' is not known. {suggest(colour, COLOURED_BY)}")
    if over_training:
        if fill is not None or language_map is not None:
            raise SettingsError("--over-training follows whole runs. Leave out --fill and --map.")
        moments, left_out = workflow.probe_over_training(models, representation, settings, uriel=uriel, output=output)
        if as_json:
            results = [moment.as_json() for moment in moments]
            return print_json({"left_out": exclusions_as_json(left_out), "results": results})
        print(over_training_text(moments), end="")
        return _say_left_out(left_out)
    if fill is not None:
        features = workflow.fill(models, fill, representation, settings, uriel=uriel)
        if as_json:
            return print_json(features.as_json())
        used = features.representation
        return print(filled_text(features.language, f"{used.model} ({used.method})", features.filled), end="")
    probing = workflow.probe(
        models, representation, settings, uriel=uriel, output=output, language_map=language_map, colour=colour
    )
    if as_json:
        return print_json(probing.as_json())
    mantels = mantel_text(probing.representations, probing.mantels)
    print(probing_text(probing.results, settings), mantels, sep="\n", end="")
    _say_left_out(probing.left_out)


def read_numbers(text: str) -> tuple[int, ...]:
    """Numbers of neighbours from `1,3,5`."""
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise SettingsError(f"--neighbours: '{text}' is not a list of numbers such as 1,3,5.") from None


def _say_left_out(left_out: Mapping[str, Exclusion]) -> None:
    from manyglot.reports.probing import left_out_text

    if left_out:
        say(left_out_text(left_out))
