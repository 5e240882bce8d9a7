"""Tables and examples for the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from manyglot.evaluation.evaluate import Evaluation, Example
from manyglot.evaluation.results import DirectionGroup
from manyglot.langid.identifier import describe_identifier


def print_averages(evaluation: Evaluation) -> None:
    """The averages by group of directions, with the signatures of the scores."""
    table = Table(title=None)
    table.add_column("directions")
    for heading in ("number", "BLEU", "chrF++", "LangAcc", "LangAcc of references", "relative"):
        table.add_column(heading, justify="right")
    for group, row in evaluation.averages().items():
        table.add_row(
            group_label(group, evaluation.pivot),
            str(row["num_directions"]),
            f"{row['bleu']:.1f}",
            f"{row['chrf']:.1f}",
            percent(row["language_accuracy"]),
            percent(row["reference_accuracy"]),
            percent(row["relative_accuracy"]),
        )
    console = _console()
    console.print(table)
    for signature in sorted({d.bleu_signature for d in evaluation.directions}):
        console.print(f"BLEU {signature}", highlight=False)
    console.print(f"chrF++ {evaluation.chrf_signature}", highlight=False)
    console.print(f"LangAcc: {describe_identifier(evaluation.identifier)}", highlight=False)
    if unknown := evaluation.left_out():
        console.print(f"LangAcc leaves out languages the identifier does not know: {', '.join(unknown)}")


def print_examples(examples: Iterable[Example]) -> None:
    """Source, output and reference under one another."""
    console = _console()
    for example in examples:
        kind = DirectionGroup.ZERO_SHOT if example.zero_shot else DirectionGroup.SUPERVISED
        console.print(Text(f"{example.source}→{example.target} ({group_label(kind)})", style="bold"))
        for label, text in (("source", example.text), ("output", example.output), ("reference", example.reference)):
            console.print(Text(f"  {label:<9} {text}"))


def print_description(description: Mapping[str, Any]) -> None:
    """A model: its shape, its languages, its parameters by part."""
    shape, languages = description["model"], description["languages"]
    lines = {
        "layers": f"{shape['num_encoder_layers']} + {shape['num_decoder_layers']}, {shape['norm']}-norm",
        "width": f"{shape['width']}, feed-forward {shape['ffn_width']}, {shape['num_heads']} heads",
        "guidance": ", ".join(_method(each) for each in description["guidance"]) or "none",
        "vocabulary": f"{description['num_subwords']:,} subwords + {len(languages)} language tags",
        "languages": f"{len(languages)}: {' '.join(languages)}",
    }
    if training := description["training"]:
        chosen = f"best by {training['best_by']}" if training["best_by"] else "the last"
        lines["weights"] = f"of step {training['step']:,} of {training['steps']:,}, {chosen}"
    console = _console()
    for key, value in lines.items():
        console.print(f"{key:<11} {value}", highlight=False, markup=False)
    table = Table()
    table.add_column("part")
    table.add_column("parameters", justify="right")
    for part, count in description["parameters"].items():
        table.add_row(part, f"{count:,}")
    table.add_section()
    table.add_row("all", f"{description['num_parameters']:,}")
    console.print(table)


def _method(settings: Mapping[str, Any]) -> str:
    shown = {key: ", ".join(value) if isinstance(value, list) else value for key, value in settings.items()}
    details = "; ".join(f"{key} {value}" for key, value in shown.items() if key != "method")
    return f"{settings['method']} ({details})" if details else str(settings["method"])


def group_label(group: DirectionGroup, pivot: str | None = None) -> str:
    """A group of directions in words."""
    return {
        DirectionGroup.FROM_PIVOT: f"{pivot}→xx",
        DirectionGroup.INTO_PIVOT: f"xx→{pivot}",
        DirectionGroup.SUPERVISED: "supervised",
        DirectionGroup.ZERO_SHOT: "zero-shot",
    }[group]


def percent(value: float | None) -> str:
    """A share for a table; a dash where it could not be measured."""
    return "–" if value is None else f"{value:.1f}%"


def _console() -> Console:
    return Console(soft_wrap=True)
