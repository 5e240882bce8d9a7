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
    ProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

SECONDS_BETWEEN_LINES = 10.0
SECONDS_OF_QUICK = 2.0
"""A task that is over by then has no bar."""


class Bar(Protocol):
    """What a long task is handed to tell how far it is."""

    def advance(self, amount: int = 1, note: str = "") -> None:
        """Report that `amount` more units are done, with a short note such as the loss, of one or more lines."""


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


def size(number: float) -> str:
    """Bytes in the unit that suits them."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if number < 1000:
            return f"{number:.3g} {unit}"
        number /= 1000
    return f"{number:,.3g} TB"


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


@contextmanager
def counter(title: str, unit: str, total: int | None = None, hidden: bool = False) -> Iterator[Bar]:
    """Show how many units are done and how fast, where the total need not be known; a quick task shows nothing."""
    shown: Counter
    if hidden or is_silent():
        shown = Counter(title, unit, total)
    else:
        shown = _RichCounter(title, unit, total) if sys.stderr.isatty() else _PlainCounter(title, unit, total)
    try:
        yield shown
    finally:
        shown.finish()


class Counter:
    """Counts; those derived from it show it."""

    def __init__(self, title: str, unit: str, total: int | None) -> None:
        self.title, self.unit, self.total, self.done = title, unit, total, 0
        self.start = self.last_shown = time.monotonic()

    def advance(self, amount: int = 1, note: str = "") -> None:
        """Report that `amount` more units are done."""
        self.done += amount

    def finish(self) -> None:
        """Report that the task is over."""

    def speed(self) -> str:
        """Units done in a second."""
        rate = self.done / max(time.monotonic() - self.start, 1e-9)
        return f"{rate:,.0f} {self.unit}/s" if rate >= 10 else f"{rate:.1f} {self.unit}/s"


class _RichCounter(Counter):
    """A bar on a terminal, when the task turns out not to be quick."""

    progress: _Progress | None = None

    def advance(self, amount: int = 1, note: str = "") -> None:
        super().advance(amount, note)
        if self.progress is None and time.monotonic() - self.start < SECONDS_OF_QUICK:
            return
        if self.progress is None:
            self.progress = _Progress(*self._columns(), console=Console(stderr=True), transient=True)
            self.task = self.progress.add_task(self.title, total=self.total, speed=self.speed())
            self.progress.start()
        self.progress.update(self.task, completed=self.done, speed=self.speed())

    def finish(self) -> None:
        if self.progress is not None:
            self.progress.stop()
            say(f"{self.title}: {self.done:,} {self.unit} in {duration(time.monotonic() - self.start)}, {self.speed()}")

    def _columns(self) -> list[ProgressColumn]:
        of_total = "" if self.total is None else f"/{self.total:,}"
        counted = TextColumn(f"{{task.completed:,}}{of_total} {self.unit}, {{task.fields[speed]}}")
        left = [TextColumn("left"), TimeRemainingColumn()]
        return [TextColumn("{task.description}"), BarColumn(30), counted, *(left if self.total else [])]


class _PlainCounter(Counter):
    """A line every few seconds, for logs and pipes; none for a task that ends before the first."""

    def advance(self, amount: int = 1, note: str = "") -> None:
        super().advance(amount, note)
        now = time.monotonic()
        if now - self.last_shown < SECONDS_BETWEEN_LINES:
            return
        self.last_shown = now
        known = self.total is not None and self.done
        left = f", {duration((now - self.start) / self.done * ((self.total or 0) - self.done))} left" if known else ""
        of_total = "" if self.total is None else f"/{self.total:,}"
        say(f"{self.title} {self.done:,}{of_total} {self.unit}, {self.speed()}{left}")

    def finish(self) -> None:
        if self.last_shown > self.start:
            say(f"{self.title}: {self.done:,} {self.unit} in {duration(time.monotonic() - self.start)}, {self.speed()}")


class _Progress(Progress):
    """A bar with its note under it, where also a narrow terminal has room."""

    note = ""

    def get_renderables(self) -> Iterator[RenderableType]:
        yield from super().get_renderables()
        if self.note:
            yield Text(self.note, style="dim", no_wrap=True, overflow="ellipsis")


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
        how = "done in" if self.done >= self.total else "ended after"
        self._say(f"{how} {duration(time.monotonic() - self.start)}")

    def _say(self, when: str) -> None:
        note = "; ".join(self.note.splitlines())
        say(", ".join(filter(None, (f"{self.title} {self.done:,}/{self.total:,} {when}", note))))
