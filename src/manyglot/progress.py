"""Progress for people: a bar with the time left on a terminal, plain lines elsewhere; always on stderr."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

SECONDS_BETWEEN_LINES = 10.0


class Bar(Protocol):
    """What a long task is handed to tell how far it is."""

    def advance(self, amount: int = 1, note: str = "") -> None:
        """Report that `amount` more units are done, with a short note such as the loss."""


def is_silent() -> bool:
    """Whether another of several processes speaks for this one."""
    return os.environ.get("RANK", "0") != "0"


def say(message: str) -> None:
    """Tell the user something that is not a result."""
    if not is_silent():
        print(message, file=sys.stderr, flush=True)


@contextmanager
def bar(title: str, total: int, done: int = 0) -> Iterator[Bar]:
    """Show the progress of a task of `total` units, `done` of them from an earlier run."""
    if sys.stderr.isatty() and not is_silent():
        columns = (
            TextColumn("{task.description}"),
            BarColumn(bar_width=30),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}"),
        )
        with Progress(*columns, console=Console(stderr=True)) as progress:
            yield _RichBar(progress, title, total, done)
    else:
        lines = _PlainBar(title, total, done)
        yield lines
        lines.finish()


class _RichBar:
    def __init__(self, progress: Progress, title: str, total: int, done: int) -> None:
        self.progress = progress
        self.task = progress.add_task(title, total=total, completed=done, note="")

    def advance(self, amount: int = 1, note: str = "") -> None:
        if note:
            self.progress.update(self.task, note=note)
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
            say(f"{self.title} {self.done}/{self.total}, {left:.0f} s left {self.note}".rstrip())

    def finish(self) -> None:
        seconds = time.monotonic() - self.start
        say(f"{self.title} {self.done}/{self.total} done in {seconds:.0f} s {self.note}".rstrip())
