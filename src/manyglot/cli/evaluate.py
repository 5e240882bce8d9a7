"""The command `manyglot evaluate`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from manyglot.cli.options import AsJson, EvaluationOverrides, ModelFolder, print_json
from manyglot.progress import is_secondary_process


def evaluate(
    model: ModelFolder,
    data: Annotated[Path, typer.Option(help="Prepared data whose test split is translated.", show_default=False)],
    zero_shot: Annotated[bool, typer.Option("--zero-shot", help="Also evaluate zero-shot directions.")] = False,
    test: Annotated[
        Path | None,
        typer.Option(
            help="Other test text: a folder, file or zip archive in a published layout (FLORES-200, NTREX-128, TMX …), "
            "or a YAML file that describes it."
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder for the results and the report.")
    ] = None,
    overrides: EvaluationOverrides = [],  # noqa: B006
    as_json: AsJson = False,
) -> None:
    """Evaluate a model in every direction.

    Translates the test split and prints BLEU, chrF++ and language accuracy, supervised and zero-shot. With --output, an
    interrupted evaluation resumes where it stopped. Under torchrun, all processes translate.
    """
    from manyglot.reports.displayable import print_parts
    from manyglot.workflows import evaluate as workflow

    evaluation = workflow.evaluate(model, data, zero_shot, output, overrides, test)
    if is_secondary_process():
        return
    if as_json:
        return print_json(evaluation.to_dict())
    print_parts(evaluation.display_parts())
    if output:
        print(f"Report: {output / 'report.html'}")
