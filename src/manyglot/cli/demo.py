"""The command `manyglot demo`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from manyglot.cli.hints import command_name
from manyglot.cli.options import AsJson, Overrides, print_json


def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="Where to put everything.")] = Path("demo-run"),
    overrides: Overrides = [],  # noqa: B006
    as_json: AsJson = False,
) -> None:
    """Train and score a small model of 14 languages.

    Prepares the built-in phrasebook, trains on two CPU cores for some minutes, translates supervised and zero-shot
    directions, and ends with scores, a few translations and a report.
    """
    from manyglot.reports.tables import print_averages, print_examples
    from manyglot.workflows import demo as workflow

    evaluation, report = workflow.demo(output, overrides)
    if as_json:
        return print_json({"averages": evaluation.averages(), "report": str(report)})
    print_averages(evaluation)
    print_examples(evaluation.sample(6))
    print(
        f"Report: {report}\nTry: echo 'Tuesday, March 5, 2024' | {command_name()} translate {output}/run/model --to sw"
    )
