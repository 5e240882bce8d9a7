"""Ctrl-C and SIGTERM: finish the step that is under way, save, and stop."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from manyglot.progress import say

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Wish:
    """Whether somebody wants us to stop."""

    def __init__(self) -> None:
        self.stop = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Note a signal; a second one does not wait for anything."""
        if self.stop:
            raise KeyboardInterrupt
        self.stop = True
        say("Stopping: this step is finished and saved first. Again to stop at once.")


@contextmanager
def wish_to_stop() -> Iterator[Wish]:
    """Turn the signals into a wish while this goes on; only the main thread gets signals."""
    wish = Wish()
    if threading.current_thread() is not threading.main_thread():
        yield wish
        return
    before = {number: signal.signal(number, wish) for number in SIGNALS}
    try:
        yield wish
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
