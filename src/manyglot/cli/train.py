"""The command `manyglot train`."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from manyglot.cli.hints import command_name
from manyglot.cli.options import AsJson, ConfigFile, Overrides, print_json
from manyglot.errors import ManyglotError
from manyglot.progress import is_silent, say

if TYPE_CHECKING:
    from manyglot.training.forecast import Forecast


def train(
    config: ConfigFile,
    overrides: Overrides = [],  # noqa: B006
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the plan, the time and the space it needs; write nothing.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Train a model, or go on with a stopped run.

    Reads the `data` folder and writes the `run` folder: checkpoints, a log and, in the end, the model folder.
    """
    from manyglot.config.experiment import read_experiment
    from manyglot.model.folder import read_training
    from manyglot.workflows import train as workflow

    experiment = read_experiment(config, overrides)
    if dry_run:
        return _show_forecast(workflow.forecast(experiment), as_json)
    model = workflow.train(experiment)
    if is_silent():  # one of several processes
        return
    summary = workflow.summarize(experiment.run)
    if as_json:
        values = asdict(summary) if summary else {}
        return print_json({"model": str(model), **values, **read_training(model)})
    if summary:
        say(str(summary))
    print(model)
    say(f"Curves: {command_name()} plot {experiment.run}")
    say(f"Next: {command_name()} evaluate {model} --data {experiment.data} --zero-shot")


def _show_forecast(forecast: Forecast, as_json: bool) -> None:
    """Print it; what training would refuse has the exit code of a refusal here too."""
    from manyglot.reports.forecast import print_forecast

    if as_json:
        print_json(forecast.as_json())
    else:
        print_forecast(forecast.as_json())
    if forecast.beginning.state == "refused":
        raise ManyglotError(forecast.beginning.reason)
