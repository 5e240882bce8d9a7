"""Results that show themselves: as text in the terminal, as tables and pictures in a notebook."""

from __future__ import annotations

import base64
import io
from abc import ABC, abstractmethod
from collections.abc import Iterable
from html import escape
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.text import Text

from manyglot.reports.result_table import ResultTable

MAX_TEXT_WIDTH = 200
"""Width of a table in the `repr` of a result; wider tables wrap."""
IMAGE_TYPES = {".png": "image/png", ".svg": "image/svg+xml"}
"""The image files that a notebook shows."""


class Svg(NamedTuple):
    """A picture, which only a notebook shows."""

    code: str


DisplayPart = str | Text | ResultTable | Svg
"""A line of text, a table or a picture."""


def print_parts(parts: Iterable[DisplayPart], console: Console | None = None) -> None:
    """Print text and tables in the terminal; leave out pictures."""
    console = console or Console(soft_wrap=True)
    for part in parts:
        if isinstance(part, ResultTable):
            console.print(part.to_rich())
        elif not isinstance(part, Svg):
            console.print(part, highlight=False, markup=False)


class Displayable(ABC):
    """A result whose `repr` is readable text. A notebook shows its tables and pictures."""

    @abstractmethod
    def display_parts(self) -> Iterable[DisplayPart]:
        """Return what to show, in order."""

    def __repr__(self) -> str:
        file = io.StringIO()
        print_parts(
            self.display_parts(),
            Console(file=file, width=MAX_TEXT_WIDTH, soft_wrap=True, force_jupyter=False, force_terminal=False),
        )
        return file.getvalue().rstrip("\n")

    def _repr_html_(self) -> str:
        return "".join(map(_to_html, self.display_parts()))


class OutputFile:
    """A file that a command has written. It can be used as a path, and a notebook shows it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __fspath__(self) -> str:
        return str(self.path)

    def __str__(self) -> str:
        return str(self.path)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.path)!r})"

    def _repr_html_(self) -> str:
        if media_type := IMAGE_TYPES.get(self.path.suffix):
            content = base64.b64encode(self.path.read_bytes()).decode()
            return f'<img src="data:{media_type};base64,{content}" alt="{escape(self.path.name)}">'
        if self.path.suffix == ".html":
            page = escape(self.path.read_text("utf-8"))
            return f'<iframe srcdoc="{page}" width="100%" height="700"></iframe>'
        return escape(str(self.path))


def _to_html(part: DisplayPart) -> str:
    match part:
        case ResultTable():
            return part.to_html()
        case Svg():
            return part.code
        case _:
            return f"<div>{escape(str(part))}</div>"
