"""Defers Ctrl-C while output is being written, so that the output is never cut in the middle."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def defer_keyboard_interrupt() -> Iterator[None]:
    """Defer the first Ctrl-C until the end of the block.

    A second one interrupts at once, because the process that reads the output may have stopped reading.
    """
    handler = signal.getsignal(signal.SIGINT)
    if not callable(handler) or threading.current_thread() is not threading.main_thread():
        yield  # SIGINT is ignored, as in background jobs, or another thread receives it
        return
    deferred: list[tuple[int, FrameType | None]] = []

    def defer(number: int, frame: FrameType | None) -> None:
        deferred.append((number, frame))
        signal.signal(signal.SIGINT, handler)

    signal.signal(signal.SIGINT, defer)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
    if deferred:
        handler(*deferred[0])
