"""The exit codes of all commands, and what a command does when the system asks it to end (docs/training.md)."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

USER_ERROR = 2
"""A mistake of the user, damaged files or a full disk. Running the same command again fails again."""
STOPPED = 75
"""Training was stopped before its end and saved (EX_TEMPFAIL of sysexits.h). The same command resumes it."""
INTERRUPTED = 130
"""Ctrl-C."""
TERMINATED = 143
"""SIGTERM, except for training, which saves and exits with `STOPPED`."""


@contextmanager
def exit_on_sigterm() -> Iterator[None]:
    """End a command on SIGTERM as Ctrl-C does: unfinished folders are removed or kept for the next attempt.

    Processes that the command has forked end at once. Outside the main thread, and where SIGTERM is ignored, nothing
    changes.
    """
    main_process, handler = os.getpid(), signal.getsignal(signal.SIGTERM)
    if threading.current_thread() is not threading.main_thread() or handler is not signal.SIG_DFL:
        yield
        return

    def exit_main_process(signal_number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)  # a second signal ends the process at once
        if os.getpid() != main_process:
            os.kill(os.getpid(), signal.SIGTERM)
        sys.exit(TERMINATED)

    signal.signal(signal.SIGTERM, exit_main_process)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, handler)
