"""The command `manyglot score`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from manyglot.cli.options import AsJson, print_json


def score(
    hypotheses: Annotated[
        Path,
        typer.Argument(
            help="Translations: a folder of files such as de-en.txt, JSONL, TSV, or results of `evaluate`.",
            show_default=False,
        ),
    ],
    test: Annotated[Path, typer.Option(help="Test set: a folder of test text, or prepared data.", show_default=False)],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder for the results and the report.")
    ] = None,
    name: Annotated[str | None, typer.Option(help="Name of the system. Default: that of the output folder.")] = None,
    source: Annotated[str | None, typer.Option(help="Source language of files whose names do not state it.")] = None,
    target: Annotated[
        str | None, typer.Option(help="Target language of such files; alone: all directions into it.")
    ] = None,
    trained_directions: Annotated[
        str | None, typer.Option(help="Directions the system was trained on: de>en,en>de; all; or a model.")
    ] = None,
    central_language: Annotated[
        str | None, typer.Option(help="Language whose directions the system was trained on.")
    ] = None,
    metrics: Annotated[
        list[str],
        typer.Option("--metric", metavar="NAME=PATH", help="Sentence scores of another metric: comet=comet.json."),
    ] = [],  # noqa: B006
    overrides: Annotated[
        list[str], typer.Option("--set", metavar="KEY=VALUE", help="Override an evaluation setting.")
    ] = [],  # noqa: B006
    as_json: AsJson = False,
) -> None:
    """Score translations of any system.

    Compares translations with a test set, and prints and writes what `evaluate` does, so that `compare` and `report`
    work with any system.
    """
    from manyglot.evaluation.segment_scores import parse_metric_options
    from manyglot.reports.displayable import print_parts
    from manyglot.workflows import score as workflow

    result = workflow.score(
        hypotheses,
        test,
        output,
        name=name,
        source=source,
        target=target,
        trained_directions=trained_directions,
        central_language=central_language,
        metrics=parse_metric_options(metrics),
        overrides=overrides,
    )
    if as_json:
        return print_json(result.to_dict())
    print_parts(result.display_parts())
    if output:
        print(f"Report: {output / 'report.html'}")
