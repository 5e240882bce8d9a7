"""The commands that judge: evaluate, compare, report."""

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
    from manyglot.workflows import corpus as workflow

    evaluation = workflow.evaluate(model, data, zero_shot, output, overrides, test)
    if is_silent():  # one of several processes
        return
    if as_json:
        return print_json(evaluation.scores())
    print_averages(evaluation)
    if output:
        print(f"Report: {output / 'report.html'}")


def compare(
    runs: Annotated[
        list[str],
        typer.Argument(
            help="Folders of `evaluate --output`; NAME=A,B names a system of several seeds.", metavar="RUN…"
        ),
    ],
    reference: Annotated[str | None, typer.Option(help="The run, or its name, that win rates are against.")] = None,
    form: Annotated[str, typer.Option("--format", help="markdown, latex, csv or json.")] = "markdown",
    common: Annotated[bool, typer.Option("--common", help="Compare what all runs were tested on.")] = False,
    significance: Annotated[
        int, typer.Option(min=0, help="Paired bootstrap with this many samples, such as 1000; 0 without.")
    ] = 0,
    seed: Annotated[int, typer.Option(min=0, help="Of the bootstrap.")] = 1,
) -> None:
    """Show systems beside one another.

    BLEU, win rate and language accuracy from and into English, over all supervised directions and zero-shot, as in the
    paper's tables; the best in bold.
    """
    from manyglot.evaluation.comparison import compare as compare_systems
    from manyglot.evaluation.comparison import read_systems
    from manyglot.reports.comparison import comparison_text, table_format

    chosen = table_format(form)
    systems, name = read_systems(runs, reference)
    print(comparison_text(compare_systems(systems, name, common, significance, seed), chosen), end="")


def report(
    runs: Annotated[
        list[str],
        typer.Argument(
            help="Folders of `evaluate --output`, the one it is about first; NAME=FOLDER names one.", metavar="RUN…"
        ),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="The page to write.")] = Path("report.html"),
    common: Annotated[bool, typer.Option("--common", help="Show what all runs were tested on.")] = False,
) -> None:
    """Write a page to look at a run, beside others.

    Heat maps of all directions, tables, where outputs drift to, the worst directions with sentences, averages and win
    rates, curves and a model card, in one file that needs no network.
    """
    from manyglot.workflows import evaluate as evaluating

    evaluating.report(runs, output, common)
    print(output)
