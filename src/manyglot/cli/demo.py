"""The command `manyglot demo`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from manyglot.cli.hints import command_name
from manyglot.cli.options import AsJson, Overrides, print_json

if TYPE_CHECKING:
    from manyglot.evaluation.results import DirectionGroup

STORED_BASELINE = {
    "supervised": {"bleu": 78.2, "language_accuracy": 97.5},
    "zero_shot": {"bleu": 6.1, "language_accuracy": 35.9},
}
"""Scores of the token baseline as `manyglot demo --compare` measured them (docs/benchmarks.md)."""


def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for all files of the demo.")] = Path(
        "demo-run"
    ),
    compare: Annotated[
        bool, typer.Option("--compare", help="Also train a model with a language token, the usual baseline.")
    ] = False,
    overrides: Overrides = [],  # noqa: B006
    as_json: AsJson = False,
) -> None:
    """Train and evaluate a small model of 14 languages.

    Prepares the built-in phrasebook, trains for a few minutes on two CPU cores, translates supervised and zero-shot
    directions, and prints scores and example translations. Also writes a report.
    """
    from manyglot.reports.displayable import print_parts
    from manyglot.reports.result_parts import evaluation_averages_parts, translation_example_parts
    from manyglot.workflows import demo as workflow

    result = workflow.demo(output, overrides, compare=compare)
    if as_json:
        baseline = {} if result.baseline is None else {"baseline_averages": result.baseline.averages()}
        return print_json({"averages": result.evaluation.averages(), "report": str(result.report)} | baseline)
    print_parts(evaluation_averages_parts(result.evaluation))
    print_parts(translation_example_parts(result.evaluation.select_display_examples(6)))
    if result.baseline is not None:
        print("\nThe token baseline, trained on the same data:")
        print_parts(evaluation_averages_parts(result.baseline))
        print(_verdict(result.evaluation.averages(), result.baseline.averages()))
    elif not overrides:
        print(_verdict(result.evaluation.averages(), STORED_BASELINE))
    print(
        f"Report: {result.report}\n"
        f"Try: echo 'Tuesday, March 5, 2024' | {command_name()} translate {output}/run/model --to sw"
    )


def _verdict(averages: Mapping[DirectionGroup, Mapping[str, Any]], baseline: Mapping[Any, Mapping[str, Any]]) -> str:
    """Say what the scores show, beside those of the baseline."""
    lines = ["", "The model was trained only from and into English."]
    for group, where in (("supervised", "In these"), ("zero_shot", "In all other")):
        if row := averages.get(group):  # type: ignore[call-overload]
            lines.append(
                f"{where} {row['num_directions']} directions, it reaches {row['bleu']:.1f} BLEU with "
                f"{row['language_accuracy']:.1f}% of the outputs in the right language."
            )
            other = baseline[group]
            lines.append(
                f"  With a language token before the source instead: {other['bleu']:.1f} BLEU, "
                f"{other['language_accuracy']:.1f}%."
            )
    return "\n".join([*lines, ""])
