"""The command `manyglot trim`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from manyglot.cli.options import AsJson, ModelFolder, print_json


def trim(
    model: ModelFolder,
    output: Annotated[Path, typer.Option("--output", "-o", help="The folder to write.", show_default=False)],
    languages: Annotated[
        list[str], typer.Option(help="Languages to keep, such as de,fr,en. Repeatable. Default: all.")
    ] = [],  # noqa: B006
    text: Annotated[
        list[Path],
        typer.Option(
            help="Text in these languages, whose subwords remain: a file with one sentence per line, or a corpus. "
            "Repeatable.",
            show_default=False,
        ),
    ] = [],  # noqa: B006
    data: Annotated[
        Path | None, typer.Option(help="Prepared data of the model, used like --text.", show_default=False)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Drop languages of a model, and subwords that the other languages do not use.

    Without --text and --data, all subwords remain. Otherwise, the trimmed model translates like the whole model with
    the other subwords masked.
    """
    from manyglot.reports.displayable import print_parts
    from manyglot.workflows import trim as workflow

    trimmed = workflow.trim(model, output, languages, text=text, data=data)
    if as_json:
        return print_json(trimmed.to_dict())
    print_parts(trimmed.display_parts())
