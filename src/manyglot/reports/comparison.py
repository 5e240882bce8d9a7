"""Systems beside one another in the layout of the paper's tables: Markdown, LaTeX, CSV or JSON."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Literal, get_args

from manyglot.errors import SettingsError, suggest
from manyglot.evaluation.comparison import ALPHA, Comparison, GroupScore, Value
from manyglot.evaluation.results import DirectionGroup
from manyglot.langid.identifier import describe_identifier

TableFormat = Literal["markdown", "latex", "csv", "json"]
Field = Callable[[GroupScore], Value | None]


class Metric(StrEnum):
    """What is shown of a group."""

    BLEU = "bleu"
    WIN_RATE = "win_rate"
    LANGUAGE_ACCURACY = "language_accuracy"


Column = tuple[DirectionGroup, Metric]
_LABELS = {Metric.BLEU: "BLEU", Metric.WIN_RATE: "WR", Metric.LANGUAGE_ACCURACY: "LangAcc"}
_FIELDS: dict[Metric, Field] = {
    Metric.BLEU: lambda score: score.bleu,
    Metric.WIN_RATE: lambda score: score.win_rate,
    Metric.LANGUAGE_ACCURACY: lambda score: score.language_accuracy,
}
_COLUMNS: list[Column] = [
    *((group, metric) for group in list(DirectionGroup)[:3] for metric in (Metric.BLEU, Metric.WIN_RATE)),
    *((DirectionGroup.ZERO_SHOT, metric) for metric in (Metric.BLEU, Metric.LANGUAGE_ACCURACY, Metric.WIN_RATE)),
]
MARK = "†"
"""Beside a BLEU that differs significantly from the reference's."""


def table_format(name: str) -> TableFormat:
    """Refuse what is no format."""
    known: dict[str, TableFormat] = {each: each for each in get_args(TableFormat)}
    if name not in known:
        raise SettingsError(f"--format: '{name}' is not a format. {suggest(name, known)}")
    return known[name]


def comparison_text(comparison: Comparison, form: TableFormat) -> str:
    """The whole table."""
    match form:
        case "json":
            return json.dumps(comparison.as_json(), indent=2, ensure_ascii=False) + "\n"
        case "csv":
            return _csv(comparison)
        case "latex":
            return _latex(comparison)
        case "markdown":
            return _markdown(comparison)


def _columns(comparison: Comparison) -> list[Column]:
    """Those that have something in them: no win rates without a reference, no zero-shot where there is none."""
    rows = comparison.rows.values()
    with_reference = comparison.reference is not None
    return [
        (group, metric)
        for group, metric in _COLUMNS
        if any(group in row for row in rows) and (metric is not Metric.WIN_RATE or with_reference)
    ]


def _value(comparison: Comparison, system: str, column: Column) -> Value | None:
    group, metric = column
    score = comparison.rows[system].get(group)
    return None if score is None else _FIELDS[metric](score)


def _cell(comparison: Comparison, system: str, column: Column, bold: str, italic: str, between: str) -> str:
    """A number as it is printed; the best of its column in bold, also where several are, but not the only one."""
    value = _value(comparison, system, column)
    if value is None:
        is_reference = system == comparison.reference and column[1] is Metric.WIN_RATE
        return italic.format("ref") if is_reference else "–"
    others = [other for name in comparison.rows if (other := _value(comparison, name, column)) is not None]
    best = max(round(other.mean, 2) for other in others)
    text = f"{value.mean:.2f}" + (f"{between}{value.deviation:.2f}" if value.deviation is not None else "")
    found = comparison.rows[system][column[0]].significance
    mark = MARK if column[1] is Metric.BLEU and found is not None and found.p_value < ALPHA else ""
    return (bold.format(text) if round(value.mean, 2) == best and len(others) > 1 else text) + mark


def _heading(group: DirectionGroup, pivot: str, arrow: str) -> str:
    """As the paper writes it: En → XX."""
    name = pivot.capitalize()
    return {
        DirectionGroup.FROM_PIVOT: f"{name}{arrow}XX",
        DirectionGroup.INTO_PIVOT: f"XX{arrow}{name}",
        DirectionGroup.SUPERVISED: "All",
        DirectionGroup.ZERO_SHOT: "Zero-shot",
    }[group]


def _markdown(comparison: Comparison) -> str:
    columns = _columns(comparison)
    headings = [f"{_heading(group, comparison.pivot, '→')} {_LABELS[metric]}" for group, metric in columns]
    lines = [f"| system | {' | '.join(headings)} |", "|---|" + "---:|" * len(columns)]
    for system in comparison.rows:
        cells = [_cell(comparison, system, column, "**{}**", "*{}*", " ± ") for column in columns]
        lines.append(f"| {system.replace('|', chr(92) + '|')} | {' | '.join(cells)} |")
    return "\n".join([*lines, "", *_notes(comparison)]) + "\n"


def _latex(comparison: Comparison) -> str:
    """With booktabs and multirow, as the paper has it."""
    columns = _columns(comparison)
    groups = [(group, those) for group in DirectionGroup if (those := [c for c in columns if c[0] is group])]
    arrow = r" $\rightarrow$ "
    spans = [
        rf"\multicolumn{{{len(those)}}}{{c}}{{{_heading(group, comparison.pivot, arrow)}}}" for group, those in groups
    ]
    lines = [
        r"\begin{tabular}{l|" + "|".join("c" * len(those) for _, those in groups) + "}",
        r"\toprule",
        rf"\multirow{{2}}{{*}}{{System}} & {' & '.join(spans)} \\",
        rf"\cmidrule{{2-{len(columns) + 1}}}",
        f" & {' & '.join(_LABELS[metric] for _, metric in columns)} " + r"\\",
        r"\midrule",
    ]
    for system in comparison.rows:
        cells = [_cell(comparison, system, column, r"\textbf{{{}}}", r"\textit{{{}}}", r"$\pm$") for column in columns]
        cells = [cell.replace(MARK, r"$^{\dagger}$").replace("–", "-") for cell in cells]
        lines.append(f"{_escaped(system)} & {' & '.join(cells)} " + r"\\")
    notes = [f"% {note}" for note in _notes(comparison)]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", *notes]) + "\n"


def _escaped(text: str) -> str:
    return "".join(
        {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}.get(
            letter, f"\\{letter}" if letter in "&%$#_{}" else letter
        )
        for letter in text
    )


def _csv(comparison: Comparison) -> str:
    """Whole numbers, in a line for each system; deviations in columns of their own."""
    columns = _columns(comparison)
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    names = [f"{_heading(group, comparison.pivot, '→')} {_LABELS[metric]}" for group, metric in columns]
    writer.writerow(["system", *names, *(f"{name} deviation" for name in names)])
    for system in comparison.rows:
        values = [_value(comparison, system, column) for column in columns]
        means = ["" if value is None else value.mean for value in values]
        writer.writerow([system, *means, *("" if v is None or v.deviation is None else v.deviation for v in values)])
    return file.getvalue()


def _notes(comparison: Comparison) -> Sequence[str]:
    """What the numbers are."""
    sizes = {group: score.num_directions for row in comparison.rows.values() for group, score in row.items()}
    counted = ", ".join(f"{n:,} {_heading(group, comparison.pivot, '→')}" for group, n in sizes.items())
    signatures = [*comparison.signatures, describe_identifier(comparison.identifier)]
    notes = [f"Directions: {counted}.", f"Signatures: {'; '.join(signatures)}."]
    if comparison.reference is not None:
        notes.append(f"WR: percent of directions with a higher BLEU than {comparison.reference}.")
    has_several = any(score.bleu.deviation is not None for row in comparison.rows.values() for score in row.values())
    if has_several:
        notes.append("±: standard deviation over runs.")
    if comparison.num_samples:
        samples = f"p < {ALPHA}, {comparison.num_samples:,} samples" + (
            "; of several runs, the first" if has_several else ""
        )
        notes.append(f"{MARK}: differs from {comparison.reference} by paired bootstrap ({samples}).")
        notes += [f"{system}: {found}." for system in comparison.rows if (found := _differences(comparison, system))]
    return notes


def _differences(comparison: Comparison, system: str) -> str:
    """How far a system is from the reference in each group, and in how many directions for certain."""
    found = []
    for group, score in comparison.rows[system].items():
        if score.significance is not None:
            difference, p = score.significance.difference, score.significance.p_value
            where = _heading(group, comparison.pivot, "→")
            found.append(f"{where} {difference:+.2f} (p = {p:.3f}; {score.better} better, {score.worse} worse)")
    return ", ".join(found)
