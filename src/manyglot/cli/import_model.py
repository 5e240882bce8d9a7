"""The command `manyglot import`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from manyglot.cli.options import AsJson, print_json


def import_model(
    model: Annotated[str, typer.Argument(help="A folder of transformers, or hf://owner/name.", show_default=False)],
    output: Annotated[Path, typer.Option("--output", "-o", help="The model folder to write.", show_default=False)],
    source: Annotated[
        list[str], typer.Option(help="Source languages of a Marian model whose files do not name them; repeatable.")
    ] = [],  # noqa: B006
    target: Annotated[
        list[str], typer.Option(help="The target language of a Marian model whose files do not name it.")
    ] = [],  # noqa: B006
    as_json: AsJson = False,
) -> None:
    """Import a model of transformers: M2M100, NLLB-200, MBart-50 or Marian (OPUS-MT).

    The weights must be safetensors. An error says how to convert others.
    """
    from manyglot.workflows import import_model as workflow

    folder = workflow.import_model(model, output, source, target)
    if as_json:
        return print_json({"model": str(folder)})
    print(folder)
