"""Tables of results, for the terminal and for notebooks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from rich.table import Table

NO_VALUE = "–"
"""A cell without a value."""


@dataclass(frozen=True)
class ResultTable:
    """A table whose columns are right-aligned after the first one. Columns without a value in any row are hidden."""

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    total: Sequence[str] | None = None
    """A last row below a line."""

    def to_rich(self) -> Table:
        """Return the table for the terminal."""
        shown, table = self._shown_columns(), Table()
        for i in shown:
            table.add_column(self.headings[i], justify="right" if i else "left")
        for row in self.rows:
            table.add_row(*(row[i] for i in shown))
        if self.total is not None:
            table.add_section()
            table.add_row(*(self.total[i] for i in shown))
        return table

    def to_html(self) -> str:
        """Return the table for a notebook."""
        total = [] if self.total is None else [self.total]
        head = self._html_row(self.headings, "th")
        body = "".join(self._html_row(row, "td") for row in [*self.rows, *total])
        return f"<table><thead>{head}</thead><tbody>{body}</tbody></table>"

    def _html_row(self, cells: Sequence[str], tag: str) -> str:
        styled = (
            f'<{tag} style="text-align: {"right" if i else "left"}">{escape(cells[i])}</{tag}>'
            for i in self._shown_columns()
        )
        return f"<tr>{''.join(styled)}</tr>"

    def _shown_columns(self) -> list[int]:
        return [i for i in range(len(self.headings)) if i == 0 or any(row[i] != NO_VALUE for row in self.rows)]
