"""Status messages and progress on stderr: a bar with the remaining time on a terminal, plain lines elsewhere.

Status messages and plain progress lines are records of the logger `manyglot`, at level INFO. Its handler writes them to
stderr without a prefix. Configure this logger to send them elsewhere.
"""

from __future__ import annotations

import logging
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
QUIET_VARIABLE = "MANYGLOT_QUIET"
"""The environment variable that silences status and progress."""
MIN_SECONDS_TO_SHOW = 2.0
"""A progress counter stays hidden for tasks that finish sooner."""


LOGGER = logging.getLogger("manyglot")


class ProgressReporter(Protocol):
    """The interface through which a long task reports its progress."""

    def advance(self, amount: int = 1, note: str = "") -> None:
        """Report that `amount` more units are done. The note, such as the loss, may have several lines."""


def is_secondary_process() -> bool:
    """Whether this is a distributed process other than the main one; only the main process prints."""
    return os.environ.get("RANK", "0") != "0"


def is_silent() -> bool:
    """Whether this process shows no status and no progress: with MANYGLOT_QUIET, or if it is a secondary process."""
    return is_secondary_process() or os.environ.get(QUIET_VARIABLE, "") not in ("", "0")


def print_status(message: str) -> None:
    """Log a message other than a result or an error, unless the process is silent. By default it goes to stderr."""
    if not is_silent():
        LOGGER.info(message)


def print_error(message: str) -> None:
    """Print a message to stderr, in the main process only. A closed stderr is ignored."""
    if not is_secondary_process():
        with suppress(BrokenPipeError):
            print(message, file=sys.stderr, flush=True)


class _StderrHandler(logging.Handler):
    """Prints records to the current `sys.stderr`, which a test or a notebook may have replaced."""

    def emit(self, record: logging.LogRecord) -> None:
        print_error(self.format(record))


LOGGER.addHandler(_StderrHandler())
LOGGER.setLevel(logging.INFO)
LOGGER.propagate = False  # otherwise a program that configures the root logger would show each message twice


def format_duration(seconds: float) -> str:
    """Format a duration with its two largest units, such as `3 min 5 s`."""
    total = round(seconds)
    if total < 100:
        return f"{total} s"
    if total < 3600:
        return f"{total // 60} min {total % 60} s"
    if total < 48 * 3600:
        return f"{total // 3600} h {total % 3600 // 60} min"
    return f"{total // 86400} days {total % 86400 // 3600} h"


def format_bytes(num_bytes: float) -> str:
    """Format a number of bytes with a suitable unit, such as `3.2 GB`."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if num_bytes < 1000:
            return f"{num_bytes:.3g} {unit}"
        num_bytes /= 1000
    return f"{num_bytes:,.3g} TB"


@contextmanager
def progress_bar(title: str, total: int, done: int = 0) -> Iterator[ProgressReporter]:
    """Show the progress of a task of `total` units, of which an earlier run has already done `done`."""
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
        plain = _PlainBar(title, total, done)
        yield plain
        plain.finish()


@contextmanager
def progress_counter(
    title: str, unit: str, total: int | None = None, hidden: bool = False
) -> Iterator[ProgressReporter]:
    """Show the number of finished units and the rate; the total may be unknown. Quick tasks show nothing."""
    counter: ProgressCounter
    if hidden or is_silent():
        counter = ProgressCounter(title, unit, total)
    else:
        counter = _RichCounter(title, unit, total) if sys.stderr.isatty() else _PlainCounter(title, unit, total)
    try:
        yield counter
    finally:
        counter.finish()


class ProgressCounter:
    """Counts finished units without showing them; subclasses show them."""

    def __init__(self, title: str, unit: str, total: int | None) -> None:
        self.title, self.unit, self.total, self.done = title, unit, total, 0
        self.start = self.last_shown = time.monotonic()

    def advance(self, amount: int = 1, note: str = "") -> None:
        """Report that `amount` more units are done."""
        self.done += amount

    def finish(self) -> None:
        """Report that the task has finished."""

    def format_rate(self) -> str:
        """Format the mean rate, such as `12 lines/s`."""
        rate = self.done / max(time.monotonic() - self.start, 1e-9)
        return f"{rate:,.0f} {self.unit}/s" if rate >= 10 else f"{rate:.1f} {self.unit}/s"

    def _print_total(self) -> None:
        seconds = time.monotonic() - self.start
        print_status(f"{self.title}: {self.done:,} {self.unit} in {format_duration(seconds)}, {self.format_rate()}")


class _RichCounter(ProgressCounter):
    """Shows a bar on a terminal once the task has run for a while."""

    progress: _Progress | None = None

    def advance(self, amount: int = 1, note: str = "") -> None:
        super().advance(amount, note)
        if self.progress is None and time.monotonic() - self.start < MIN_SECONDS_TO_SHOW:
            return
        if self.progress is None:
            self.progress = _Progress(*self._columns(), console=Console(stderr=True), transient=True)
            self.task = self.progress.add_task(self.title, total=self.total, speed=self.format_rate())
            self.progress.start()
        self.progress.update(self.task, completed=self.done, speed=self.format_rate())

    def finish(self) -> None:
        if self.progress is not None:
            self.progress.stop()
            self._print_total()

    def _columns(self) -> list[ProgressColumn]:
        of_total = "" if self.total is None else f"/{self.total:,}"
        counts = TextColumn(f"{{task.completed:,}}{of_total} {self.unit}, {{task.fields[speed]}}")
        left = [TextColumn("left"), TimeRemainingColumn()]
        return [TextColumn("{task.description}"), BarColumn(30), counts, *(left if self.total else [])]


class _PlainCounter(ProgressCounter):
    """Prints a line every few seconds, for logs and pipes. A task that finishes before the first prints nothing."""

    def advance(self, amount: int = 1, note: str = "") -> None:
        super().advance(amount, note)
        now = time.monotonic()
        if now - self.last_shown < SECONDS_BETWEEN_LINES:
            return
        self.last_shown = now
        left = ""
        if self.total is not None and self.done:
            left = f", {format_duration((now - self.start) / self.done * (self.total - self.done))} left"
        of_total = "" if self.total is None else f"/{self.total:,}"
        print_status(f"{self.title} {self.done:,}{of_total} {self.unit}, {self.format_rate()}{left}")

    def finish(self) -> None:
        if self.last_shown > self.start:
            self._print_total()


class _Progress(Progress):
    """A bar with its note on the line below, where even a narrow terminal has room."""

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
    """Prints a line every few seconds, for logs and pipes."""

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
            self._print_line(f"{format_duration(left)} left")

    def finish(self) -> None:
        outcome = "done in" if self.done >= self.total else "ended after"
        self._print_line(f"{outcome} {format_duration(time.monotonic() - self.start)}")

    def _print_line(self, timing: str) -> None:
        note = "; ".join(self.note.splitlines())
        print_status(", ".join(filter(None, (f"{self.title} {self.done:,}/{self.total:,} {timing}", note))))
