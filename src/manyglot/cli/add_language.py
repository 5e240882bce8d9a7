"""The command `manyglot add-language`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from manyglot.cli.hints import command_name
from manyglot.cli.options import AsJson, ModelFolder, Overrides, print_json
from manyglot.progress import print_status


def add_language(
    model: ModelFolder,
    text: Annotated[
        Path,
        typer.Argument(
            help="A YAML file with a section corpus: text in the new languages with translations into languages of the "
            "model.",
            show_default=False,
        ),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="The language pack to write.", show_default=False)],
    overrides: Overrides = [],  # noqa: B006
    as_json: AsJson = False,
) -> None:
    """Train a language pack: it adds languages to a model without changing it.

    Only what belongs to the new languages is trained: their subwords, tags and guidance. The other directions of the
    model give the same translations as before, bit for bit.
    """
    from manyglot.workflows import add_language as workflow

    added = workflow.add_language(model, text, output, overrides)
    if as_json:
        return print_json({"pack": str(added.folder), "languages": added.languages, "parameters": added.num_parameters})
    print(added)
    print_status(f"Next: {command_name()} translate {model} --pack {added.folder} --to {added.languages[0]}")
