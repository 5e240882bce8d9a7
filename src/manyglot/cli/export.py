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
        typer.Option(help="Target languages, such as de,fr; repeatable. Not needed if tags are the only guidance."),
    ] = [],  # noqa: B006
    export_format: Annotated[
        str,
        typer.Option("--to", help="ctranslate2, transformers, onnx, or manyglot for a model folder of half the size."),
    ] = "ctranslate2",
    quantization: Annotated[
        str | None,
        typer.Option(help="int8 for ctranslate2 and onnx; int16, float16 … for ctranslate2; default float32."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Export a model to CTranslate2, transformers or ONNX, or to a model folder of half the size.

    For CTranslate2 and transformers, guidance is folded into plain weights. The export has one folder per target
    language, or a single folder if tags are the only guidance. An ONNX export always has all languages, and a program
    that translates.
    """
    from manyglot.workflows import export as workflow

    folders = workflow.export(model, output, target, export_format, quantization)
    if as_json:
        return print_json({"folders": [str(folder) for folder in folders]})
    print(*folders, sep="\n")
