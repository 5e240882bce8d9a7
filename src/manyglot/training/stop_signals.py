"""Ctrl-C and SIGTERM: finish the step that is under way, save, and stop."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from manyglot.progress import print_status

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class StopRequest:
    """Whether somebody wants us to stop."""

    def __init__(self) -> None:
        self.is_requested = False

    def __call__(self, signal_number: int, frame: FrameType | None) -> None:
        """Note a signal; a second one does not wait for anything."""
        if self.is_requested:
            raise KeyboardInterrupt
        self.is_requested = True
        print_status("Stopping: this step is finished and saved first. Again to stop at once.")


@contextmanager
def catch_stop_signals() -> Iterator[StopRequest]:
    """Turn the signals into a wish while this goes on; only the main thread gets signals."""
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
