"""The command `manyglot demo`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from manyglot.cli.hints import command_name
from manyglot.cli.options import AsJson, Overrides, print_json


def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for all files of the demo.")] = Path(
        "demo-run"
    ),
    overrides: Overrides = [],  # noqa: B006
    as_json: AsJson = False,
) -> None:
    """Train and evaluate a small model of 14 languages.

    Prepares the built-in phrasebook, trains for a few minutes on two CPU cores, translates supervised and zero-shot
    directions, and prints scores and example translations. Also writes a report.
    """
    from manyglot.reports.print_results import print_evaluation_averages, print_translation_examples
    from manyglot.workflows import demo as workflow

    evaluation, report = workflow.demo(output, overrides)
    if as_json:
        return print_json({"averages": evaluation.averages(), "report": str(report)})
    print_evaluation_averages(evaluation)
    print_translation_examples(evaluation.select_display_examples(6))
    print(
        f"Report: {report}\nTry: echo 'Tuesday, March 5, 2024' | {command_name()} translate {output}/run/model --to sw"
    )
