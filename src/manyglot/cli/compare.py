"""The command `manyglot compare`."""

from __future__ import annotations

from typing import Annotated

import typer


def compare(
    runs: Annotated[
        list[str],
        typer.Argument(
            help="Output folders of `evaluate`; NAME=A,B combines several seeds into one system.", metavar="RUN…"
        ),
    ],
    baseline: Annotated[str | None, typer.Option(help="Run to compare against, by folder or name.")] = None,
    format_name: Annotated[str, typer.Option("--format", help="markdown, latex, csv or json.")] = "markdown",
    common_test_only: Annotated[
        bool, typer.Option("--common-test-only", help="Compare only the test sentences that all runs share.")
    ] = False,
    significance: Annotated[
        int, typer.Option(min=0, help="Number of paired bootstrap samples, such as 1000; 0 skips the test.")
    ] = 0,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the bootstrap.")] = 1,
) -> None:
    """Compare systems side by side.

    Prints BLEU, win rate and language accuracy as in the paper's tables: from and into English, over all supervised
    directions, and zero-shot. The best values are bold.
    """
    from manyglot.reports.comparison_table import format_comparison, parse_table_format
    from manyglot.workflows import compare as workflow

    table_format = parse_table_format(format_name)
    comparison = workflow.compare(runs, baseline, common_test_only, significance, seed)
    print(format_comparison(comparison, table_format), end="")
