"""The command `manyglot train`."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from manyglot.cli.hints import command_name
from manyglot.cli.options import AsJson, ConfigFile, Overrides, print_json
from manyglot.errors import ManyglotError
from manyglot.progress import is_secondary_process, print_status

if TYPE_CHECKING:
    from manyglot.training.dry_run import DryRunResult


def train(
    config: ConfigFile,
    overrides: Overrides = [],  # noqa: B006
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the plan and the time and disk space it needs, and write nothing.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Train a model, or resume a stopped run.

    Reads the `data` folder and writes the `run` folder: checkpoints, a log and, at the end, the model folder.
    """
    from manyglot.config.experiment import read_experiment
    from manyglot.workflows import train as workflow

    experiment = read_experiment(config, overrides)
    if dry_run:
        return _print_dry_run(workflow.dry_run(experiment), as_json)
    result = workflow.train(experiment)
    if is_secondary_process():
        return
    if as_json:
        totals = asdict(result.summary) if result.summary else {}
        return print_json({"model": str(result.model_folder), **totals, **result.training_info})
    if result.summary:
        print_status(str(result.summary))
    print(result.model_folder)
    print_status(f"Curves: {command_name()} plot {experiment.run}")
    scores = experiment.run / "scores"
    print_status(
        f"Next: {command_name()} evaluate {result.model_folder} --data {experiment.data} --zero-shot --output {scores}"
    )


def _print_dry_run(result: DryRunResult, as_json: bool) -> None:
    """Print the result of a dry run. If training would be refused, raise its error, which sets the same exit code."""
    from manyglot.reports.dry_run_table import print_dry_run

    if as_json:
        print_json(result.to_dict())
    else:
        print_dry_run(result.to_dict())
    if result.resume_status.status == "refused":
        raise ManyglotError(result.resume_status.refusal_reason)
