"""The command `manyglot report`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from manyglot.cli.options import AsJson, print_json


def report(
    runs: Annotated[
        list[str],
        typer.Argument(
            help="Output folders of `evaluate`, the main run first; NAME=FOLDER sets a name.", metavar="RUN…"
        ),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="The HTML file to write.")] = Path("report.html"),
    common_test_only: Annotated[
        bool, typer.Option("--common-test-only", help="Show only the test sentences that all runs share.")
    ] = False,
    baseline: Annotated[
        str | None,
        typer.Option(
            help="Output folder of an earlier evaluation, for example before fine-tuning: name the directions in which "
            "the main run is significantly worse or better.",
            metavar="RUN",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write an HTML report of a run, optionally compared with other runs.

    Shows heat maps and tables of all directions, off-target outputs, the worst directions with examples, averages, win
    rates, learning curves and the facts about the system. The report is one file that needs no network.
    """
    from manyglot.reports.displayable import print_parts
    from manyglot.workflows import report as workflow

    result = workflow.report(runs, output, common_test_only, baseline)
    if as_json:
        changes = {} if result.changes is None else result.changes.to_dict()
        return print_json({"report": str(output), **changes})
    print_parts(result.change_parts())
    print(output)
