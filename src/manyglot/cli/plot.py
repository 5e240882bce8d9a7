"""The command `manyglot plot`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def plot(
    runs: Annotated[list[Path], typer.Argument(help="Folders of runs, such as runs/mine.", show_default=False)],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The picture: a file that ends in .png, .svg or .pdf.")
    ] = Path("curves.png"),
    tokens: Annotated[bool, typer.Option("--tokens", help="Over the target tokens seen instead of the steps.")] = False,
) -> None:
    """Draw the curves of one or more runs.

    Loss, dev scores, learning rate, speed and the loss into each language, from the log; also while a run is training.
    """
    from manyglot.workflows import plot as workflow

    workflow.plot(runs, output, tokens)
    print(output)
