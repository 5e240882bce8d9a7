"""How the terminal and notebooks show evaluations, translation examples and model descriptions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from rich.text import Text

from manyglot.evaluation.evaluator import Evaluation, TranslationExample
from manyglot.evaluation.results import DirectionGroup
from manyglot.evaluation.scored_system import SegmentMetric
from manyglot.langid.identifier import describe_identifier
from manyglot.reports.displayable import DisplayPart
from manyglot.reports.result_table import NO_VALUE, ResultTable

LOWER_IS_BETTER_MARK = "↓"
"""Marks a metric whose lower scores are better."""


def evaluation_averages_parts(evaluation: Evaluation) -> Iterator[DisplayPart]:
    """Yield the averages by group of directions, and the signatures of the metrics."""
    rows = [
        [
            group_label(group, evaluation.central_language),
            str(row["num_directions"]),
            f"{row['bleu']:.1f}",
            f"{row['chrf']:.1f}",
            format_percent(row["language_accuracy"]),
            format_percent(row["reference_language_accuracy"]),
            format_percent(row["relative_language_accuracy"]),
            *(format_segment_score(row["metrics"].get(name)) for name in evaluation.metrics),
        ]
        for group, row in evaluation.averages().items()
    ]
    headings = ["directions", "number", "BLEU", "chrF++", "LangAcc", "references", "relative"]
    headings += [segment_metric_label(name, metric) for name, metric in evaluation.metrics.items()]
    yield ResultTable(headings, rows)
    if evaluation.system is not None:
        yield f"System: {evaluation.system.name}, from {evaluation.system.hypotheses.describe()}"
    for name, metric in evaluation.metrics.items():
        yield f"{segment_metric_label(name, metric)}: mean sentence scores from {metric.scores.describe()}"
    for signature in sorted({d.bleu_signature for d in evaluation.directions}):
        yield f"BLEU {signature}"
    yield f"chrF++ {evaluation.chrf_signature}"
    yield f"LangAcc: {describe_identifier(evaluation.identifier_signature)}"
    if unknown := evaluation.unidentifiable_targets():
        yield f"LangAcc excludes targets that the identifier does not know: {', '.join(unknown)}"


def translation_example_parts(examples: Iterable[TranslationExample]) -> Iterator[DisplayPart]:
    """Yield source, output and reference of each example."""
    for example in examples:
        group = {True: " (zero-shot)", False: " (supervised)", None: ""}[example.zero_shot]
        yield Text(f"{example.source}→{example.target}{group}", style="bold")
        for label, text in (
            ("source", example.source_text),
            ("output", example.output),
            ("reference", example.reference),
        ):
            yield Text(f"  {label:<9} {text}")


def model_description_parts(description: Mapping[str, Any]) -> Iterator[DisplayPart]:
    """Yield the shape, languages and parameters of a model, given as the plain values of `describe`."""
    shape, languages = description["model"], description["languages"]
    lines = {
        "layers": f"{shape['num_encoder_layers']} + {shape['num_decoder_layers']}, {shape['norm']}-norm",
        "width": f"{shape['width']}, feed-forward {shape['ffn_width']}, {shape['num_heads']} heads",
        "guidance": ", ".join(_format_guidance(settings) for settings in description["guidance"]) or "none",
        "vocabulary": f"{description['num_subwords']:,} subwords + {len(languages)} language tags",
        "languages": f"{len(languages)}: {' '.join(languages)}",
    }
    if training := description["training"]:
        lines["weights"] = format_training_step(training)
    for key, value in lines.items():
        yield f"{key:<11} {value}"
    rows = [[part, f"{count:,}"] for part, count in description["parameters"].items()]
    yield ResultTable(["part", "parameters"], rows, ["total", f"{description['num_parameters']:,}"])


def format_training_step(training: Mapping[str, Any]) -> str:
    """Say which step or steps the weights of a model are from, given its training.json."""
    trimmed = training.get("trimmed_from")
    return _format_origin(training) + ("" if trimmed is None else f", trimmed from {trimmed['model']}")


def _format_origin(training: Mapping[str, Any]) -> str:
    if name := training.get("imported_from"):
        return f"imported from {name} ({training.get('model_type')})"
    if steps := training.get("averaged_steps"):
        return f"mean of steps {', '.join(f'{step:,}' for step in steps)}"
    selection = f"best by {training['best_metric']}" if training["best_metric"] else "last step"
    unfinished = " so far" if "checkpoint" in training else ""
    return f"step {training['step']:,} of {training['steps']:,}{unfinished}, {selection}"


def _format_guidance(settings: Mapping[str, Any]) -> str:
    shown = {key: ", ".join(value) if isinstance(value, list) else value for key, value in settings.items()}
    details = "; ".join(f"{key} {value}" for key, value in shown.items() if key != "method")
    return f"{settings['method']} ({details})" if details else str(settings["method"])


def group_label(group: DirectionGroup, central_language: str | None = None) -> str:
    """Return the display label of a group of directions."""
    return {
        DirectionGroup.FROM_CENTRAL_LANGUAGE: f"{central_language}→xx",
        DirectionGroup.INTO_CENTRAL_LANGUAGE: f"xx→{central_language}",
        DirectionGroup.SUPERVISED: "supervised",
        DirectionGroup.ZERO_SHOT: "zero-shot",
        DirectionGroup.ALL: "all directions",
    }[group]


def segment_metric_label(name: str, metric: SegmentMetric) -> str:
    """Return the heading of another metric, with a mark if lower scores are better."""
    return f"{name} {LOWER_IS_BETTER_MARK}" if metric.lower_is_better else name


def format_segment_score(value: float | None) -> str:
    """Format the score of another metric: with four decimals, as COMET's are between 0 and 1, or two for large ones."""
    if value is None:
        return NO_VALUE
    return f"{value:.4f}" if abs(value) < 10 else f"{value:.2f}"


def format_percent(value: float | None) -> str:
    """Format a percentage; a dash if it is None."""
    return NO_VALUE if value is None else f"{value:.1f}%"
