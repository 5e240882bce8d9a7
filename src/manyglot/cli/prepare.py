"""The command `manyglot prepare`."""

from __future__ import annotations

from typing import Annotated

import typer

from manyglot.cli.hints import command_name, format_override_options
from manyglot.cli.options import AsJson, ConfigFile, Overrides, print_json
from manyglot.errors import SettingsError
from manyglot.progress import print_status


def prepare(
    config: ConfigFile,
    overrides: Overrides = [],  # noqa: B006
    show_dropped: Annotated[int, typer.Option(min=0, help="Number of dropped examples to print for each reason.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Prepare a corpus for training.

    Reads the text that the YAML file names, trains the subword model and writes the `data` folder.
    """
    from manyglot.config.experiment import read_experiment
    from manyglot.reports.corpus_tables import print_cleaning_report
    from manyglot.reports.displayable import print_parts
    from manyglot.workflows import prepare as workflow

    if as_json and show_dropped:
        raise SettingsError("--show-dropped and --json exclude each other; --json always has the examples. Remove one.")
    dataset = workflow.prepare(read_experiment(config, overrides))
    if as_json:
        return print_json({"data": str(dataset.folder), **dataset.metadata})
    print_parts(dataset.display_parts())
    print_cleaning_report(dataset.metadata["dropped"], dataset.metadata["dropped_examples"], show_dropped)
    print_status(f"Next: {command_name()} train {config}{format_override_options(overrides)}")
