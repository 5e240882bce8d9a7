"""The command `manyglot export`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from manyglot.cli.options import AsJson, ModelFolder, print_json


def export(
    model: ModelFolder,
    output: Annotated[Path, typer.Option("--output", "-o", help="The folder to write.", show_default=False)],
    target: Annotated[
        list[str],
        typer.Option(help="Target languages, such as de,fr; again for more. A model with tags alone needs none."),
    ] = [],  # noqa: B006
    to: Annotated[str, typer.Option(help="ctranslate2, or manyglot: the model in half the size.")] = "ctranslate2",
    quantization: Annotated[str | None, typer.Option(help="int8, int16, float16 …; float32 if not given.")] = None,
    as_json: AsJson = False,
) -> None:
    """Write a model for another engine, or in half the size.

    For CTranslate2, guidance is folded into plain weights: a folder for each target language, or one for all where
    guidance is in tags.
    """
    from manyglot.workflows import export as workflow

    targets = [code.strip() for codes in target for code in codes.split(",") if code.strip()]
    folders = workflow.export(model, output, targets, to, quantization)
    if as_json:
        return print_json({"folders": [str(folder) for folder in folders]})
    print(*folders, sep="\n")
