"""The command `manyglot report`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def report(
    runs: Annotated[
        list[str],
        typer.Argument(
            help="Folders of `evaluate --output`, the one it is about first; NAME=FOLDER names one.", metavar="RUN…"
        ),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="The page to write.")] = Path("report.html"),
    common: Annotated[bool, typer.Option("--common", help="Show what all runs were tested on.")] = False,
) -> None:
    """Write a page to look at a run, beside others.

    Heat maps of all directions, tables, where outputs drift to, the worst directions with sentences, averages and win
    rates, curves and a model card, in one file that needs no network.
    """
    from manyglot.workflows import report as workflow

    workflow.report(runs, output, common)
    print(output)
