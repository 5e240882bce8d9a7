"""The command `manyglot describe`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from manyglot.cli.options import AsJson, Overrides, print_json


def describe(
    what: Annotated[Path, typer.Argument(help="An experiment's YAML file or a model folder.", show_default=False)],
    overrides: Overrides = [],  # noqa: B006
    as_json: AsJson = False,
) -> None:
    """Show a model's shape and parameters.

    Layers, guidance, languages and the number of parameters by part.
    """
    from manyglot.reports.tables import print_description
    from manyglot.workflows import describe as workflow

    description = workflow.describe(what, overrides)
    if as_json:
        return print_json(description)
    print_description(description)
