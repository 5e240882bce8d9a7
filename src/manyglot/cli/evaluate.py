"""The command `manyglot evaluate`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from manyglot.cli.options import AsJson, JudgingOverrides, ModelFolder, print_json
from manyglot.progress import is_silent


def evaluate(
    model: ModelFolder,
    data: Annotated[Path, typer.Option(help="The prepared data to translate.", show_default=False)],
    zero_shot: Annotated[bool, typer.Option("--zero-shot", help="Also the directions never trained on.")] = False,
    test: Annotated[
        Path | None, typer.Option(help="A folder with other test text: test.de, test.en, … line by line, or pairs.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder for the results and the report.")
    ] = None,
    overrides: JudgingOverrides = [],  # noqa: B006
    as_json: AsJson = False,
) -> None:
    """Score a model in every direction.

    Translates the test split and prints BLEU, chrF++ and language accuracy, supervised and zero-shot. With --output, an
    interrupted evaluation goes on where it was; under torchrun, all processes translate.
    """
    from manyglot.reports.tables import print_averages
    from manyglot.workflows import evaluate as workflow

    evaluation = workflow.evaluate(model, data, zero_shot, output, overrides, test)
    if is_silent():  # one of several processes
        return
    if as_json:
        return print_json(evaluation.scores())
    print_averages(evaluation)
    if output:
        print(f"Report: {output / 'report.html'}")
