"""The command `manyglot compare`."""

from __future__ import annotations

from typing import Annotated

import typer


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
    from manyglot.reports.comparison import comparison_text, table_format
    from manyglot.workflows import compare as workflow

    chosen = table_format(form)
    print(comparison_text(workflow.compare(runs, reference, common, significance, seed), chosen), end="")
