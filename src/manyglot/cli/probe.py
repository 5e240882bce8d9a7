"""The command `manyglot probe`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from manyglot.errors import SettingsError, suggest
from manyglot.progress import say

if TYPE_CHECKING:
    from manyglot.probing.probe import ProbeSettings
    from manyglot.probing.representations import Representation
    from manyglot.probing.uriel import Uriel

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
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Ask what a model has learnt of its languages.

    Predicts their typological features (URIEL: syntax, phonology, inventory of sounds) from those of the languages
    whose representations in the model are nearest, beside what is told without a model.
    """
    from manyglot.probing.language_map import correlations
    from manyglot.probing.neighbours import Vote
    from manyglot.probing.probe import ProbeSettings, probe_all
    from manyglot.probing.representations import read_models
    from manyglot.probing.uriel import read_uriel
    from manyglot.reports.language_map import draw_map, mantel_text
    from manyglot.reports.probing import check_picture, draw_probing, left_out_text, probing_text

    if vote not in list(Vote):
        raise SettingsError(f"--vote: '{vote}' is not a vote. {suggest(vote, list(Vote))}")
    settings = ProbeSettings(read_numbers(neighbours), Vote(vote), random, permutations, seed)
    if colour not in COLOURED_BY:
        raise SettingsError(f"--colour: '{colour}' is not known. {suggest(colour, COLOURED_BY)}")
    for picture in filter(None, (output, language_map)):
        check_picture(picture)
    database = read_uriel(uriel)
    if over_training:
        if fill is not None or language_map is not None:
            raise SettingsError("--over-training follows whole runs. Leave out --fill and --map.")
        return _follow(database, models, representation, settings, output, as_json)
    representations = read_models(models, representation)
    if fill is not None:
        return _fill(database, representations, fill, settings.neighbours, as_json)
    if language_map is not None:
        draw_map(database, _only(representations, "--map"), colour, language_map)
    results, left_out = probe_all(database, representations, settings)
    if output is not None:
        draw_probing(results, settings, output)
    found = [correlations(database, each, permutations, seed) for each in representations]
    if as_json:
        probed = [
            result.as_json() | {"mantel": [each.as_json() for each in mantels]}
            for result, mantels in zip(results, found, strict=True)
        ]
        return _print_json({"left_out": left_out, "results": probed})
    print(probing_text(results, settings), mantel_text(representations, found), sep="\n", end="")
    if left_out:
        say(left_out_text(left_out))


def read_numbers(text: str) -> tuple[int, ...]:
    """Numbers of neighbours from `1,3,5`."""
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise SettingsError(f"--neighbours: '{text}' is not a list of numbers such as 1,3,5.") from None


def _follow(
    database: Uriel,
    runs: Sequence[str],
    method: str | None,
    settings: ProbeSettings,
    output: Path | None,
    as_json: bool,
) -> None:
    """Print what the checkpoints of runs have learnt, step by step."""
    from manyglot.probing.over_training import follow
    from manyglot.probing.representations import named_folders, wanted_of
    from manyglot.reports.over_training import draw_over_training, over_training_text
    from manyglot.reports.probing import left_out_text
    from manyglot.workflows import corpus as workflow

    folders = named_folders(runs).items()
    steps = (
        (step, wanted_of(model, name, method)) for name, run in folders for step, model in workflow.over_training(run)
    )
    moments, left_out = follow(database, steps, settings)
    if output is not None:
        draw_over_training(moments, output)
    if as_json:
        return _print_json({"left_out": left_out, "results": [moment.as_json() for moment in moments]})
    print(over_training_text(moments), end="")
    if left_out:
        say(left_out_text(left_out))


def _fill(
    database: Uriel, representations: Sequence[Representation], language: str, neighbours: Sequence[int], as_json: bool
) -> None:
    """Print the predicted features by a representation of a model."""
    from manyglot.probing.fill import fill
    from manyglot.reports.probing import filled_text

    first = _only(representations, "--fill")
    code, filled = fill(database, first, language, neighbours)
    if as_json:
        return _print_json({"language": code, "method": first.method, "filled": [each.as_json() for each in filled]})
    print(filled_text(code, f"{first.model} ({first.method})", filled), end="")


def _only(representations: Sequence[Representation], option: str) -> Representation:
    """The representation of the only model; of several the first, and how to have another is said."""
    first = representations[0]
    if any(each.model != first.model for each in representations):
        raise SettingsError(f"{option} takes one model. Give one.")
    if len(representations) > 1:
        others = ", ".join(each.method for each in representations[1:])
        say(f"{option} goes by {first.method}; --representation has it go by {others}.")
    return first


def _print_json(value: Any) -> None:
    print(json.dumps(value, indent=2, ensure_ascii=False))
