"""The command `manyglot prepare`."""

from __future__ import annotations

from typing import Annotated

import typer

from manyglot.cli.hints import command_name, repeat_overrides
from manyglot.cli.options import AsJson, ConfigFile, Overrides, print_json
from manyglot.errors import SettingsError
from manyglot.progress import say


def prepare(
    config: ConfigFile,
    overrides: Overrides = [],  # noqa: B006
    show_dropped: Annotated[
        int, typer.Option(min=0, help="Examples to print of what is left out, for each reason.")
    ] = 0,
    as_json: AsJson = False,
) -> None:
    """Turn a corpus into prepared data.

    Reads the text that the YAML file names, learns subwords and writes the `data` folder.
    """
    from manyglot.config.experiment import read_experiment
    from manyglot.reports.corpora import print_dropped, print_subwords
    from manyglot.workflows import prepare as workflow

    if as_json and show_dropped:
        raise SettingsError("--show-dropped is for the text; --json has the examples anyway. Leave one of them out.")
    dataset = workflow.prepare(read_experiment(config, overrides))
    if as_json:
        return print_json({"data": str(dataset.folder), **dataset.card})
    rows = ", ".join(f"{count:,} {split}" for split, count in dataset.card["rows"].items())
    print(f"{dataset.folder}: {rows} rows in {len(dataset.languages)} languages")
    print_subwords(dataset.card["subwords"])
    print_dropped(dataset.card["dropped"], dataset.card["dropped_examples"], show_dropped)
    say(f"Next: {command_name()} train {config}{repeat_overrides(overrides)}")
