"""Format a comparison of systems in the layout of the paper's tables: Markdown, LaTeX, CSV or JSON."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from typing import Literal, get_args

from manyglot.errors import SettingsError, did_you_mean
from manyglot.evaluation.bootstrap import Significance
from manyglot.evaluation.results import DirectionGroup
from manyglot.evaluation.system_comparison import SIGNIFICANCE_LEVEL, Comparison, DirectionGroupScore, MeanStd
from manyglot.langid.identifier import describe_identifier
from manyglot.reports.displayable import DisplayPart
from manyglot.reports.result_parts import LOWER_IS_BETTER_MARK, segment_metric_label
from manyglot.reports.result_table import ResultTable

TableFormat = Literal["markdown", "latex", "csv", "json"]
ScoreGetter = Callable[[DirectionGroupScore], MeanStd | None]


class Metric(StrEnum):
    """A metric that the table shows for a group of directions."""

    BLEU = "bleu"
    WIN_RATE = "win_rate"
    LANGUAGE_ACCURACY = "language_accuracy"


TableColumn = tuple[DirectionGroup, str]
"""A group of directions, and a `Metric` or the name of another metric."""
_LABELS: dict[str, str] = {Metric.BLEU: "BLEU", Metric.WIN_RATE: "WR", Metric.LANGUAGE_ACCURACY: "LangAcc"}
_SCORE_GETTERS: dict[str, ScoreGetter] = {
    Metric.BLEU: lambda score: score.bleu,
    Metric.WIN_RATE: lambda score: score.win_rate,
    Metric.LANGUAGE_ACCURACY: lambda score: score.language_accuracy,
}
_PAPER_COLUMNS: list[TableColumn] = [
    *((group, metric) for group in list(DirectionGroup)[:3] for metric in (Metric.BLEU, Metric.WIN_RATE)),
    *(
        (group, metric)
        for group in (DirectionGroup.ZERO_SHOT, DirectionGroup.ALL)
        for metric in (Metric.BLEU, Metric.LANGUAGE_ACCURACY, Metric.WIN_RATE)
    ),
]
SIGNIFICANCE_MARK = "†"
"""Marks a BLEU that differs significantly from the baseline's."""


def parse_table_format(name: str) -> TableFormat:
    """Return the table format with this name; raise if there is none."""
    known: dict[str, TableFormat] = {known_name: known_name for known_name in get_args(TableFormat)}
    if name not in known:
        raise SettingsError(f"--format: '{name}' is not a format. {did_you_mean(name, known)}")
    return known[name]


def format_comparison(comparison: Comparison, table_format: TableFormat) -> str:
    """Format a comparison as text."""
    match table_format:
        case "json":
            return json.dumps(comparison.to_dict(), indent=2, ensure_ascii=False) + "\n"
        case "csv":
            return _to_csv(comparison)
        case "latex":
            return _to_latex(comparison)
        case "markdown":
            return _to_markdown(comparison)


def comparison_parts(comparison: Comparison) -> Iterator[DisplayPart]:
    """Yield the table and its notes."""
    columns = _nonempty_columns(comparison)
    rows = [
        [system, *(_format_cell(comparison, system, column, "{}", "{}", " ± ") for column in columns)]
        for system in comparison.scores_by_system
    ]
    yield ResultTable(["system", *_column_names(comparison)], rows)
    yield from _table_notes(comparison)


def _column_names(comparison: Comparison) -> list[str]:
    return [
        f"{_group_heading(group, comparison.central_language, '→')} {_metric_label(comparison, metric)}"
        for group, metric in _nonempty_columns(comparison)
    ]


def _nonempty_columns(comparison: Comparison) -> list[TableColumn]:
    """Return the columns with a value: no win rates without a baseline, no group without directions."""
    return [
        column
        for column in [*_PAPER_COLUMNS, *((group, name) for group in DirectionGroup for name in comparison.metrics)]
        if any(_column_value(comparison, system, column) is not None for system in comparison.scores_by_system)
    ]


def _column_value(comparison: Comparison, system: str, column: TableColumn) -> MeanStd | None:
    group, metric = column
    score = comparison.scores_by_system[system].get(group)
    if score is None:
        return None
    if metric in _SCORE_GETTERS:
        return _SCORE_GETTERS[metric](score)
    return score.metrics[metric].mean if metric in score.metrics else None


def _metric_label(comparison: Comparison, metric: str) -> str:
    return _LABELS.get(metric) or segment_metric_label(metric, comparison.metrics[metric])


def _significance_of(comparison: Comparison, system: str, column: TableColumn) -> Significance | None:
    """Return the significance of a score's difference from the baseline, if it was tested."""
    group, metric = column
    score = comparison.scores_by_system[system][group]
    if metric in comparison.metrics:
        return score.metrics[metric].significance
    return score.significance if metric == Metric.BLEU else None


def _format_cell(
    comparison: Comparison, system: str, column: TableColumn, bold: str, italic: str, plus_minus: str
) -> str:
    """Format a value; the best values of a column with several values are bold."""
    value = _column_value(comparison, system, column)
    if value is None:
        is_baseline = system == comparison.baseline and column[1] == Metric.WIN_RATE
        return italic.format("base") if is_baseline else "–"
    column_values = [
        other for name in comparison.scores_by_system if (other := _column_value(comparison, name, column)) is not None
    ]
    metric = comparison.metrics.get(column[1])
    digits = 2 if metric is None or max(abs(other.mean) for other in column_values) >= 10 else 4
    best = (min if metric and metric.lower_is_better else max)(round(other.mean, digits) for other in column_values)
    text = f"{value.mean:.{digits}f}" + (f"{plus_minus}{value.std:.{digits}f}" if value.std is not None else "")
    significance = _significance_of(comparison, system, column)
    mark = SIGNIFICANCE_MARK if significance is not None and significance.p_value < SIGNIFICANCE_LEVEL else ""
    return (bold.format(text) if round(value.mean, digits) == best and len(column_values) > 1 else text) + mark


def _group_heading(group: DirectionGroup, central_language: str, arrow: str) -> str:
    """Return the heading of a group as in the paper: En → XX."""
    name = central_language.capitalize()
    return {
        DirectionGroup.FROM_CENTRAL_LANGUAGE: f"{name}{arrow}XX",
        DirectionGroup.INTO_CENTRAL_LANGUAGE: f"XX{arrow}{name}",
        DirectionGroup.SUPERVISED: "All",
        DirectionGroup.ZERO_SHOT: "Zero-shot",
        DirectionGroup.ALL: "All directions",
    }[group]


def _to_markdown(comparison: Comparison) -> str:
    columns = _nonempty_columns(comparison)
    lines = [f"| system | {' | '.join(_column_names(comparison))} |", "|---|" + "---:|" * len(columns)]
    for system in comparison.scores_by_system:
        cells = [_format_cell(comparison, system, column, "**{}**", "*{}*", " ± ") for column in columns]
        lines.append(f"| {system.replace('|', chr(92) + '|')} | {' | '.join(cells)} |")
    return "\n".join([*lines, "", *_table_notes(comparison)]) + "\n"


def _to_latex(comparison: Comparison) -> str:
    """Format with booktabs and multirow, as in the paper."""
    columns = _nonempty_columns(comparison)
    groups = [
        (group, group_columns) for group in DirectionGroup if (group_columns := [c for c in columns if c[0] is group])
    ]
    arrow = r" $\rightarrow$ "
    spans = [
        rf"\multicolumn{{{len(group_columns)}}}{{c}}{{{_group_heading(group, comparison.central_language, arrow)}}}"
        for group, group_columns in groups
    ]
    lines = [
        r"\begin{tabular}{l|" + "|".join("c" * len(group_columns) for _, group_columns in groups) + "}",
        r"\toprule",
        rf"\multirow{{2}}{{*}}{{System}} & {' & '.join(spans)} \\",
        rf"\cmidrule{{2-{len(columns) + 1}}}",
        f" & {' & '.join(_latex_label(comparison, metric) for _, metric in columns)} " + r"\\",
        r"\midrule",
    ]
    for system in comparison.scores_by_system:
        cells = [
            _format_cell(comparison, system, column, r"\textbf{{{}}}", r"\textit{{{}}}", r"$\pm$") for column in columns
        ]
        cells = [cell.replace(SIGNIFICANCE_MARK, r"$^{\dagger}$").replace("–", "-") for cell in cells]
        lines.append(f"{_escape_latex(system)} & {' & '.join(cells)} " + r"\\")
    notes = [f"% {note}" for note in _table_notes(comparison)]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", *notes]) + "\n"


def _latex_label(comparison: Comparison, metric: str) -> str:
    return _escape_latex(_metric_label(comparison, metric)).replace(LOWER_IS_BETTER_MARK, r"$\downarrow$")


def _escape_latex(text: str) -> str:
    return "".join(
        {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}.get(
            letter, f"\\{letter}" if letter in "&%$#_{}" else letter
        )
        for letter in text
    )


def _to_csv(comparison: Comparison) -> str:
    """Format unrounded means, one line per system, with standard deviations in separate columns."""
    columns = _nonempty_columns(comparison)
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    names = _column_names(comparison)
    writer.writerow(["system", *names, *(f"{name} deviation" for name in names)])
    for system in comparison.scores_by_system:
        values = [_column_value(comparison, system, column) for column in columns]
        means = ["" if value is None else value.mean for value in values]
        writer.writerow([system, *means, *("" if v is None or v.std is None else v.std for v in values)])
    return file.getvalue()


def _table_notes(comparison: Comparison) -> Sequence[str]:
    """Return the notes under the table: directions, signatures and how to read the marks."""
    sizes = {
        group: score.num_directions for row in comparison.scores_by_system.values() for group, score in row.items()
    }
    counted = ", ".join(
        f"{n:,} {_group_heading(group, comparison.central_language, '→')}" for group, n in sizes.items()
    )
    signatures = [*comparison.signatures, describe_identifier(comparison.identifier_signature)]
    notes = [f"Directions: {counted}.", f"Signatures: {'; '.join(signatures)}."]
    notes += [f"{name}: translations from {origin.describe()}." for name, origin in comparison.origins.items()]
    if any(metric == Metric.WIN_RATE for _, metric in _nonempty_columns(comparison)):
        notes.append(f"WR (win rate): percentage of directions with a higher BLEU than {comparison.baseline}.")
    notes += [
        f"{segment_metric_label(name, metric)}: lower is better."
        for name, metric in comparison.metrics.items()
        if metric.lower_is_better
    ]
    notes += _coverage_notes(comparison)
    has_several = any(
        score.bleu.std is not None for row in comparison.scores_by_system.values() for score in row.values()
    )
    if has_several:
        notes.append("±: standard deviation over runs.")
    if comparison.num_bootstrap_samples:
        samples = f"p < {SIGNIFICANCE_LEVEL}, {comparison.num_bootstrap_samples:,} samples" + (
            "; the first run of each system" if has_several else ""
        )
        notes.append(
            f"{SIGNIFICANCE_MARK}: significantly different from {comparison.baseline} (paired bootstrap, {samples})."
        )
        notes += [
            f"{system}: {text}."
            for system in comparison.scores_by_system
            if (text := _significance_text(comparison, system))
        ]
    return notes


def _coverage_notes(comparison: Comparison) -> list[str]:
    """Say in how many directions all systems have scores of another metric, unless it is all of them."""
    notes = {}
    for row in comparison.scores_by_system.values():
        for group, score in row.items():
            for name, metric in score.metrics.items():
                if metric.num_directions < score.num_directions:
                    heading = _group_heading(group, comparison.central_language, "→")
                    number = f"{metric.num_directions:,} of {score.num_directions:,}"
                    notes[group, name] = f"{name}, {heading}: {number} directions have scores."
    return list(notes.values())


def _significance_text(comparison: Comparison, system: str) -> str:
    """Describe how a system differs from the baseline: by group, and the number of significant directions."""
    parts = []
    for group, score in comparison.scores_by_system[system].items():
        if score.significance is not None:
            difference, p = score.significance.difference, score.significance.p_value
            heading = _group_heading(group, comparison.central_language, "→")
            directions = f"{score.num_significantly_better} better, {score.num_significantly_worse} worse"
            parts.append(f"{heading} {difference:+.2f} (p = {p:.3f}; {directions})")
        for name, metric in score.metrics.items():
            if metric.significance is not None:
                difference, p = metric.significance.difference, metric.significance.p_value
                heading = _group_heading(group, comparison.central_language, "→")
                directions = f"{metric.num_significantly_better} better, {metric.num_significantly_worse} worse"
                parts.append(f"{heading} {name} {difference:+.4f} (p = {p:.3f}; {directions})")
    return ", ".join(parts)
