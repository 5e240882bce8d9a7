"""The command `manyglot describe`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from manyglot.cli.options import AsJson, Overrides, print_json


def describe(
    config_or_model: Annotated[
        Path,
        typer.Argument(
            help="An experiment's YAML file, or a model folder, a run folder or a checkpoint.", show_default=False
        ),
    ],
    overrides: Overrides = [],  # noqa: B006
    as_json: AsJson = False,
) -> None:
    """Show the architecture and size of a model.

    Prints layers, guidance, languages and the number of parameters of each part.
    """
    from manyglot.reports.displayable import print_parts
    from manyglot.workflows import describe as workflow

    description = workflow.describe(config_or_model, overrides)
    if as_json:
        return print_json(description.to_dict())
    print_parts(description.display_parts())
