"""Arguments and options that several commands share, and JSON output."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

ConfigFile = Annotated[Path, typer.Argument(help="The experiment's YAML file.", show_default=False)]
ModelFolder = Annotated[
    Path,
    typer.Argument(
        help="A model folder such as runs/mine/model, a run folder, a checkpoint or hf://owner/name.",
        show_default=False,
    ),
]
Overrides = Annotated[
    list[str], typer.Option("--set", metavar="KEY=VALUE", help="Override a setting, e.g. training.max_steps=500.")
]
EvaluationOverrides = Annotated[
    list[str], typer.Option("--set", metavar="KEY=VALUE", help="Override a decoding or evaluation setting.")
]
LanguagePacks = Annotated[
    list[Path],
    typer.Option("--pack", help="A language pack that adds languages to the model; repeatable.", show_default=False),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


def print_json(value: Any) -> None:
    """Print a result as JSON."""
    print(json.dumps(value, indent=2, ensure_ascii=False))
