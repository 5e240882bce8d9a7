"""Tables for the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.table import Table

NO_VALUE = "–"
"""A cell without a value."""


def make_result_table(
    headings: Sequence[str], rows: Iterable[Sequence[str]], total: Sequence[str] | None = None
) -> Table:
    """Make a table of right-aligned columns after the first one. A column without a value in any row is left out.

    `total` is a last row below a line.
    """
    rows = list(rows)
    shown = [i for i in range(len(headings)) if i == 0 or any(row[i] != NO_VALUE for row in rows)]
    table = Table()
    for i in shown:
        table.add_column(headings[i], justify="right" if i else "left")
    for row in rows:
        table.add_row(*(row[i] for i in shown))
    if total is not None:
        table.add_section()
        table.add_row(*(total[i] for i in shown))
    return table
