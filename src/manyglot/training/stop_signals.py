"""Requests to stop, by Ctrl-C, SIGTERM or a callback: finish the current step, save a checkpoint and stop."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from manyglot.progress import print_status

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class StopRequest:
    """Signal handler that records a request to stop."""

    def __init__(self) -> None:
        self.is_requested = False
        self.is_from_callback = False

    def request_from_callback(self) -> None:
        """Ask training to stop after this step."""
        self.is_requested = self.is_from_callback = True

    def __call__(self, signal_number: int, frame: FrameType | None) -> None:
        """Record the first signal; interrupt at once on the second."""
        if self.is_requested:
            raise KeyboardInterrupt
        self.is_requested = True
        print_status("Stopping after this step and saving a checkpoint. Press Ctrl-C again to stop at once.")


@contextmanager
def catch_stop_signals() -> Iterator[StopRequest]:
    """Turn stop signals into a `StopRequest` during the block. Outside the main thread no signals are caught."""
    stop_request = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield stop_request
        return
    previous_handlers = {number: signal.signal(number, stop_request) for number in STOP_SIGNALS}
    try:
        yield stop_request
    finally:
        for number, handler in previous_handlers.items():
            signal.signal(number, handler)
