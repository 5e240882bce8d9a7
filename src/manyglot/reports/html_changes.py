"""The section of the HTML report on changes since a baseline, such as the model before fine-tuning."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from manyglot.evaluation.direction_changes import DirectionChange, DirectionChanges
from manyglot.reports.direction_change_table import change_headings, format_change, summarize_changes

MAX_OPEN_ROWS = 60
"""A longer table is folded."""


def changes_html(changes: DirectionChanges, baseline_name: str) -> str:
    """Name the directions that are significantly worse or better than those of the baseline."""
    worse, better = changes.worse, changes.better
    parts = [f"<p>{escape(summarize_changes(changes, baseline_name))}</p>"]
    parts += [_table_html("Significantly worse: forgotten", worse, baseline_name)] if worse else []
    parts += [_table_html("Significantly better", better, baseline_name)] if better else []
    return "".join(parts)


def _table_html(title: str, changes: Sequence[DirectionChange], baseline_name: str) -> str:
    headings = change_headings(baseline_name)
    head = "".join(f"<th scope=col>{escape(heading)}</th>" for heading in headings)
    rows = "".join(f"<tr>{_cells_html(change)}</tr>" for change in changes)
    is_open = " open" if len(changes) <= MAX_OPEN_ROWS else ""
    return (
        f"<details{is_open}><summary>{title} ({len(changes):,})</summary><div class=scroll><table><thead>"
        f"<tr>{head}</tr></thead><tbody>{rows}</tbody></table></div></details>"
    )


def _cells_html(change: DirectionChange) -> str:
    direction, *values = format_change(change)
    cells = "".join(f"<td class=number>{value}</td>" for value in values)
    return f"<th scope=row>{escape(direction)}</th>{cells}"
