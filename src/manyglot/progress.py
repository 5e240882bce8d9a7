"""Progress for people: a bar with the time left on a terminal, plain lines elsewhere; always on stderr."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Protocol

from rich.console import Console, RenderableType
from rich.progress import (
    BarColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

SECONDS_BETWEEN_LINES = 10.0


class Bar(Protocol):
    """What a long task is handed to tell how far it is."""

    def advance(self, amount: int = 1, note: str = "") -> None:
        """Report that `amount` more units are done, with a short note such as the loss."""


def is_silent() -> bool:
    """Whether another of several processes speaks for this one."""
    return os.environ.get("RANK", "0") != "0"


def say(message: str) -> None:
    """Tell the user something that is not a result; if nobody listens any more, that is no reason to stop."""
    if not is_silent():
        with suppress(BrokenPipeError):
            print(message, file=sys.stderr, flush=True)


def duration(seconds: float) -> str:
    """A time for people: the two units that matter."""
    whole = round(seconds)
    if whole < 100:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    if whole < 48 * 3600:
        return f"{whole // 3600} h {whole % 3600 // 60} min"
    return f"{whole // 86400} days {whole % 86400 // 3600} h"


@contextmanager
def bar(title: str, total: int, done: int = 0) -> Iterator[Bar]:
    """Show the progress of a task of `total` units, `done` of them from an earlier run."""
    if sys.stderr.isatty() and not is_silent():
        columns = (
            TextColumn("{task.description}"),
            BarColumn(bar_width=30),
            TextColumn("{task.completed:,}/{task.total:,}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
        )
        with _Progress(*columns, console=Console(stderr=True)) as progress:
            yield _RichBar(progress, title, total, done)
    else:
        lines = _PlainBar(title, total, done)
        yield lines
        lines.finish()


class _Progress(Progress):
    """A bar with its note under it, where also a narrow terminal has room."""

    note = ""

    def get_renderables(self) -> Iterator[RenderableType]:
        yield from super().get_renderables()
        if self.note:
            yield Text(self.note.replace("; ", "\n"), style="dim", no_wrap=True, overflow="ellipsis")


class _RichBar:
    def __init__(self, progress: _Progress, title: str, total: int, done: int) -> None:
        self.progress = progress
        self.task = progress.add_task(title, total=total, completed=done)

    def advance(self, amount: int = 1, note: str = "") -> None:
        self.progress.note = note or self.progress.note
        self.progress.advance(self.task, amount)


class _PlainBar:
    """A line every few seconds, for logs and pipes."""

    def __init__(self, title: str, total: int, done: int) -> None:
        self.title, self.total, self.first, self.done = title, total, done, done
        self.note = ""
        self.start = self.last_line = time.monotonic()

    def advance(self, amount: int = 1, note: str = "") -> None:
        self.done += amount
        self.note = note or self.note
        now = time.monotonic()
        if now - self.last_line >= SECONDS_BETWEEN_LINES:
            self.last_line = now
            left = (now - self.start) / max(self.done - self.first, 1) * (self.total - self.done)
            self._say(f"{duration(left)} left")

    def finish(self) -> None:
        self._say(f"done in {duration(time.monotonic() - self.start)}")

    def _say(self, when: str) -> None:
        say(", ".join(part for part in (f"{self.title} {self.done:,}/{self.total:,} {when}", self.note) if part))
