"""Interception of system calls by seccomp's user notification.

A process installs a filter that suspends it at each system call that opens or changes files. Its supervisor receives
the call and decides what happens: the kernel executes it, it fails with an error, or the supervisor kills the process.
The filter works below every library, and other system calls run at full speed. See seccomp_unotify(2).
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import struct
from contextlib import suppress
from dataclasses import dataclass

SYSTEM_CALLS = {
    "write": 1,
    "open": 2,
    "pwrite64": 18,
    "writev": 20,
    "sendfile": 40,
    "fsync": 74,
    "fdatasync": 75,
    "truncate": 76,
    "ftruncate": 77,
    "rename": 82,
    "mkdir": 83,
    "rmdir": 84,
    "creat": 85,
    "link": 86,
    "unlink": 87,
    "symlink": 88,
    "chmod": 90,
    "fchmod": 91,
    "openat": 257,
    "mkdirat": 258,
    "unlinkat": 263,
    "renameat": 264,
    "linkat": 265,
    "symlinkat": 266,
    "fchmodat": 268,
    "fallocate": 285,
    "pwritev": 296,
    "renameat2": 316,
    "copy_file_range": 326,
    "pwritev2": 328,
    "openat2": 437,
    "fchmodat2": 452,
}
"""The intercepted system calls and their numbers on x86-64."""
NAMES = {number: name for name, number in SYSTEM_CALLS.items()}

_SECCOMP, _PIDFD_OPEN, _PIDFD_GETFD = 317, 434, 438
_PR_SET_NO_NEW_PRIVS, _SET_MODE_FILTER, _NEW_LISTENER = 38, 1, 8
_USER_NOTIFICATION, _ALLOW = 0x7FC00000, 0x7FFF0000
_LOAD_WORD, _JUMP_IF_EQUAL, _RETURN = 0x20, 0x15, 0x06
_RECEIVE, _SEND = 0xC0502100, 0xC0182101
_NOTIFICATION, _RESPONSE = struct.Struct("=QIIiIQ6Q"), struct.Struct("=QqiI")
_CONTINUE = 1
_AT_FDCWD = -100

_libc = ctypes.CDLL(None, use_errno=True)


def install_filter() -> int:
    """Suspend this process, and its future children, at each of `SYSTEM_CALLS`; return the supervisor's handle.

    The handle must be passed to another process, which then answers all calls.
    """
    numbers = list(SYSTEM_CALLS.values())
    program = [
        (_LOAD_WORD, 0, 0, 0),
        *((_JUMP_IF_EQUAL, len(numbers) - i, 0, number) for i, number in enumerate(numbers)),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _USER_NOTIFICATION),
    ]
    instructions = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *line) for line in program))
    header = ctypes.create_string_buffer(struct.pack("@HP", len(program), ctypes.addressof(instructions)))
    _check(_libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    return _check(_libc.syscall(_SECCOMP, _SET_MODE_FILTER, _NEW_LISTENER, header))


@dataclass(frozen=True)
class Notification:
    """A system call at which a process is suspended."""

    id: int
    pid: int
    """The number of the thread."""
    name: str
    arguments: tuple[int, ...]

    def read_string(self, argument: int) -> str:
        """Read a string argument from the memory of the process."""
        content = b""
        with open(f"/proc/{self.pid}/mem", "rb", buffering=0) as memory:
            memory.seek(self.arguments[argument])
            while b"\0" not in content:
                content += memory.read(256)  # ends at an unmapped page
        return os.fsdecode(content.partition(b"\0")[0])

    def read_bytes(self, address: int, size: int) -> bytes:
        """Read memory of the process."""
        with open(f"/proc/{self.pid}/mem", "rb", buffering=0) as memory:
            memory.seek(address)
            return memory.read(size)

    def path_of_handle(self, argument: int) -> str:
        """Return the path of an open file or folder that an argument refers to."""
        handle = ctypes.c_int32(self.arguments[argument] & 0xFFFFFFFF).value
        return self.working_folder() if handle == _AT_FDCWD else os.readlink(f"/proc/{self.pid}/fd/{handle}")

    def working_folder(self) -> str:
        """Return the folder in which the process runs."""
        return os.readlink(f"/proc/{self.pid}/cwd")

    def duplicate_handle(self, argument: int) -> int:
        """Return a handle of the same open file, with the same position, in this process."""
        with open(f"/proc/{self.pid}/status") as status:
            process_id = next(int(line.split()[1]) for line in status if line.startswith("Tgid:"))
        process = _check(_libc.syscall(_PIDFD_OPEN, process_id, 0))
        try:
            return _check(_libc.syscall(_PIDFD_GETFD, process, self.arguments[argument], 0))
        finally:
            os.close(process)


def receive(listener: int) -> Notification | None:
    """Return the next system call; None if its process died meanwhile."""
    buffer = bytearray(_NOTIFICATION.size)
    try:
        fcntl.ioctl(listener, _RECEIVE, buffer)
    except FileNotFoundError:
        return None
    notification, pid, _, number, _, _, *arguments = _NOTIFICATION.unpack(buffer)
    return Notification(notification, pid, NAMES[number], tuple(arguments))


@dataclass(frozen=True)
class Answer:
    """What happens to a system call: it returns a value, or fails with an error number, without being executed."""

    value: int = 0
    error: int = 0


def answer(listener: int, notification: Notification, given: Answer | None) -> None:
    """Answer a system call; with None, the kernel executes it."""
    value, error, flags = (0, 0, _CONTINUE) if given is None else (given.value, -given.error, 0)
    with suppress(FileNotFoundError):  # the process has died
        fcntl.ioctl(listener, _SEND, bytearray(_RESPONSE.pack(notification.id, value, error, flags)))


def _check(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
