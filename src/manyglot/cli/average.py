"""The command `manyglot average`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from manyglot.cli.options import AsJson, print_json


def average(
    run_or_checkpoints: Annotated[
        list[Path],
        typer.Argument(
            help="A run folder, with --last or --best; or the folders of several checkpoints.", show_default=False
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="The folder to write. For a run folder, the default is averaged-last-5 … in it."
        ),
    ] = None,
    last: Annotated[int | None, typer.Option(help="Average the last N checkpoints.", metavar="N")] = None,
    best: Annotated[int | None, typer.Option(help="Average the best N checkpoints.", metavar="N")] = None,
    as_json: AsJson = False,
) -> None:
    """Average the weights of several checkpoints.

    Writes a model folder with the mean weights, which often translates slightly better than any one checkpoint. The run
    may be unfinished.
    """
    from manyglot.model.model_folder import read_training_info
    from manyglot.workflows import average as workflow

    model = workflow.average(run_or_checkpoints, output, last=last, best=best)
    if as_json:
        return print_json({"model": str(model), **read_training_info(model)})
    print(model)
