"""The command `manyglot plot`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def plot(
    runs: Annotated[list[Path], typer.Argument(help="Run folders, such as runs/mine.", show_default=False)],
    output: Annotated[Path, typer.Option("--output", "-o", help="The image file: .png, .svg or .pdf.")] = Path(
        "curves.png"
    ),
    by_tokens: Annotated[
        bool, typer.Option("--by-tokens", help="Plot against target tokens instead of steps.")
    ] = False,
) -> None:
    """Plot the learning curves of one or more runs.

    Plots loss, dev scores, learning rate, speed and the loss of each target language from the log. Works while a run is
    still training.
    """
    from manyglot.workflows import plot as workflow

    workflow.plot(runs, output, by_tokens)
    print(output)
