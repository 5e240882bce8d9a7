"""Run a function in a child process in which one file operation fails."""

from __future__ import annotations

import errno
import os
import platform
import select
import signal
import socket
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from tests.faults import seccomp
from tests.faults.file_operations import FileOperation, parse_operation, write_half
from tests.faults.seccomp import Answer, Notification

_NEEDS_NO_SPACE = {"unlink", "unlinkat", "rmdir", "chmod", "fchmod", "fchmodat", "fchmodat2"}
TIMEOUT = 100
"""Seconds without a file operation after which a process counts as hanging."""


class Fault(StrEnum):
    """What happens at a file operation."""

    FULL_DISK = "full-disk"
    """From this operation on, nothing can be created or written. A first write still stores half of its bytes."""
    IO_ERROR = "io-error"
    """This operation fails with EIO."""
    KILL = "kill"
    """The process is killed before this operation."""
    TORN_WRITE = "torn-write"
    """The process is killed after half of this write."""

    def applies_to(self, operation: FileOperation) -> bool:
        """Whether this fault exists for the operation, and differs from the same fault at the next one."""
        match self:
            case Fault.FULL_DISK:
                return not operation.is_read_only and operation.name not in _NEEDS_NO_SPACE
            case Fault.IO_ERROR:
                return True
            case Fault.KILL:
                return not operation.is_read_only
            case Fault.TORN_WRITE:
                return operation.num_bytes > 1


@dataclass(frozen=True)
class FaultPoint:
    """A fault and its place: the n-th time that a process executes an operation, counted from 1."""

    fault: Fault
    operation: FileOperation
    occurrence: int

    def __str__(self) -> str:
        return f"{self.fault} at {self.operation} #{self.occurrence}"


@dataclass(frozen=True)
class Outcome:
    """How a supervised process ended."""

    exit_code: int
    """Minus the number of the signal that ended it, if any."""
    stderr: str
    operations: list[FileOperation]
    """Its operations in the folder, in order."""
    has_reached_fault: bool


def why_unavailable() -> str | None:
    """Return why faults cannot be injected on this machine; None if they can."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return "the numbers of the system calls are those of Linux on x86-64"
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder, "work")
        work.mkdir()
        try:
            outcome = run_supervised(lambda: Path("file").touch(), work)
        except OSError as error:
            return str(error)
    return None if outcome.operations else "the memory of the supervised process cannot be read"


def run_supervised(
    function: Callable[[], None],
    folder: Path,
    point: FaultPoint | None = None,
    on_operation: Callable[[FileOperation], None] = lambda operation: None,
) -> Outcome:
    """Run a function in a forked process in a folder, and inject a fault.

    `on_operation` is called before each file operation in the folder. The function ends the process as a command does:
    it returns, or raises `SystemExit` with the exit code.
    """
    output = folder.with_name(f"{folder.name}.stderr")
    parent_end, child_end = socket.socketpair()
    with parent_end, child_end, output.open("w+b") as stderr:
        pid = os.fork()
        if pid == 0:
            _run_child(function, folder, stderr.fileno(), child_end)
        child_end.close()
        _, handles, _, _ = socket.recv_fds(parent_end, 1, 1)
        if not handles:
            os.waitpid(pid, 0)
            raise OSError(f"the process cannot be supervised ({output.read_text().strip().splitlines()[-1]})")
        supervisor = _Supervisor(pid, handles[0], folder, point, on_operation)
        try:
            supervisor.run()
        finally:
            os.close(handles[0])
            _, status = os.waitpid(pid, 0)
        stderr.seek(0)
        message = stderr.read().decode("utf-8", "replace")
    output.unlink()
    return Outcome(os.waitstatus_to_exitcode(status), message, supervisor.operations, supervisor.has_reached_fault)


def _run_child(function: Callable[[], None], folder: Path, stderr: int, supervisor: socket.socket) -> None:
    """Run the function under supervision; never return."""
    code = 1
    try:
        os.setsid()  # so that all its processes can be killed together
        os.chdir(folder)
        null = os.open(os.devnull, os.O_RDWR)
        for handle, replacement in ((0, null), (1, null), (2, stderr)):
            os.dup2(replacement, handle)
        listener = seccomp.install_filter()
        socket.send_fds(supervisor, [b"!"], [listener])
        os.close(listener)
        supervisor.close()
        function()
        code = 0
    except SystemExit as stop:
        code = int(stop.code or 0)
    except BaseException:
        traceback.print_exc(limit=-4)
    finally:
        sys.stderr.flush()
        os._exit(code)


@dataclass
class _Supervisor:
    """Answers the system calls of a process and of its children."""

    pid: int
    listener: int
    folder: Path
    point: FaultPoint | None
    on_operation: Callable[[FileOperation], None]
    operations: list[FileOperation] = field(default_factory=list)
    has_reached_fault: bool = False
    is_disk_full: bool = False
    counts: Counter[FileOperation] = field(default_factory=Counter)

    def run(self) -> None:
        """Answer all calls until the processes have ended."""
        poll = select.poll()
        poll.register(self.listener, select.POLLIN)
        while events := poll.poll(TIMEOUT * 1000):
            if not events[0][1] & select.POLLIN:
                return
            notification = seccomp.receive(self.listener)
            if notification is not None:
                seccomp.answer(self.listener, notification, self._decide(notification))
        os.killpg(self.pid, signal.SIGKILL)
        raise TimeoutError(f"The process hangs: no file operation for {TIMEOUT} s after {self.operations[-1:]}.")

    def _decide(self, call: Notification) -> Answer | None:
        """Return the answer to a call; None if the kernel executes it."""
        try:
            operation = parse_operation(call, self.folder)
        except OSError:  # a wrong path or handle, which the call itself reports
            return None
        if operation is None:
            return None
        self.operations.append(operation)
        self.counts[operation] += 1
        self.on_operation(operation)
        if self.is_disk_full and Fault.FULL_DISK.applies_to(operation):
            return Answer(error=errno.ENOSPC)
        is_here = (
            self.point is not None
            and operation == self.point.operation
            and self.counts[operation] == self.point.occurrence
        )
        if not is_here:
            return None
        self.has_reached_fault = True
        return self._inject(call, operation)

    def _inject(self, call: Notification, operation: FileOperation) -> Answer | None:
        assert self.point is not None
        match self.point.fault:
            case Fault.IO_ERROR:
                return Answer(error=errno.EIO)
            case Fault.FULL_DISK:
                self.is_disk_full = True
                if operation.num_bytes > 1:
                    return Answer(value=write_half(call))
                return Answer(error=errno.ENOSPC)
            case Fault.TORN_WRITE:
                write_half(call)
        os.killpg(self.pid, signal.SIGKILL)
        return Answer(error=errno.EINTR)
