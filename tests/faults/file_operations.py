"""File operations: system calls that open or change the files of a folder."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path

from tests.faults.seccomp import Notification

_PATH_ARGUMENTS = {  # the arguments with the handle of a folder, if any, and with the path
    **dict.fromkeys(("open", "creat", "truncate", "mkdir", "rmdir", "unlink", "chmod"), (None, 0)),
    **dict.fromkeys(("openat", "openat2", "mkdirat", "unlinkat", "fchmodat", "fchmodat2"), (0, 1)),
    **dict.fromkeys(("rename", "link", "symlink"), (None, 1)),
    **dict.fromkeys(("renameat", "renameat2", "linkat"), (2, 3)),
    "symlinkat": (1, 2),
}
_HANDLE_ARGUMENTS = {"copy_file_range": 2}  # where the handle of the written file is not the first argument
_OLD_PATH_ARGUMENTS = {"rename": (None, 0), "renameat": (0, 1), "renameat2": (0, 1)}
_RANDOM_NAME = re.compile(r"\.tmp\w{6}$")  # safetensors writes to a file of such a name


@dataclass(frozen=True)
class FileOperation:
    """A system call that opens or changes a file of the supervised folder."""

    name: str
    path: str
    """The file, relative to the folder; the new name of a renamed file."""
    old_path: str | None = None
    """The old name of a renamed file."""
    is_read_only: bool = False
    """Whether it opens a file for reading."""
    num_bytes: int = field(default=0, compare=False)
    """Number of bytes that are written, if a part of them can be written."""

    def __str__(self) -> str:
        return f"{self.name}({self.path}{', reading' if self.is_read_only else ''})"


def is_visible(path: str) -> bool:
    """Whether a path is not, and is not in, a file or folder that is being written."""
    return not any(part.endswith((".unfinished", ".part", ".tmp")) for part in path.split("/"))


def parse_operation(call: Notification, folder: Path) -> FileOperation | None:
    """Return the file operation of a system call; None if it does not concern the folder."""
    flags = {"open": call.arguments[1], "openat": call.arguments[2], "openat2": 0}.get(call.name, os.O_CREAT)
    if call.name in _PATH_ARGUMENTS:
        path = _read_path(call, *_PATH_ARGUMENTS[call.name])
    else:
        path = call.path_of_handle(_HANDLE_ARGUMENTS.get(call.name, 0))
    if not Path(path).is_relative_to(folder):
        return None
    old_path = _read_path(call, *_OLD_PATH_ARGUMENTS[call.name]) if call.name in _OLD_PATH_ARGUMENTS else None
    return FileOperation(
        call.name,
        _RANDOM_NAME.sub(".tmp", os.path.relpath(path, folder)),
        old_path and _RANDOM_NAME.sub(".tmp", os.path.relpath(old_path, folder)),
        is_read_only=not flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT),
        num_bytes=call.arguments[2] if call.name in ("write", "pwrite64") else 0,
    )


def _read_path(call: Notification, folder_argument: int | None, path_argument: int) -> str:
    """Return the absolute path in the arguments of a call."""
    path = call.read_string(path_argument)
    if path.startswith("/"):
        return path
    start = call.working_folder() if folder_argument is None else call.path_of_handle(folder_argument)
    return os.path.normpath(os.path.join(start, path))


def write_half(call: Notification) -> int:
    """Write half of the bytes of a write call in place of the process; return their number."""
    content = call.read_bytes(call.arguments[1], call.arguments[2] // 2)
    handle = call.duplicate_handle(0)
    try:
        return os.pwrite(handle, content, call.arguments[3]) if call.name == "pwrite64" else os.write(handle, content)
    finally:
        os.close(handle)
