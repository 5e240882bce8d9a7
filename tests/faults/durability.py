"""Check that a power failure cannot lose what a command has published.

A file that was written but not flushed may be empty after a power failure, even if it was renamed later.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tests.faults.file_operations import FileOperation, is_visible

_FLUSHES = {"fsync", "fdatasync"}
_CHANGES = {
    "write",
    "pwrite64",
    "writev",
    "pwritev",
    "pwritev2",
    "sendfile",
    "copy_file_range",
    "ftruncate",
    "truncate",
}
_DELETIONS = {"unlink", "unlinkat", "rmdir"}


def find_unflushed_files(operations: Iterable[FileOperation]) -> Iterator[str]:
    """Name each file that is not flushed to disk when a new or a changed file becomes visible, and at the end."""
    unflushed: set[str] = set()
    """Files with changes that are not on the disk, and folders with names that are not."""
    for operation in operations:
        path, old_path = operation.path, operation.old_path
        if operation.name in _FLUSHES:
            unflushed.discard(path)
        elif operation.name in _CHANGES:
            unflushed.add(path)
        elif operation.name in _DELETIONS:
            unflushed.discard(path)
        elif old_path is not None:
            moved = {file for file in unflushed if file == old_path or file.startswith(f"{old_path}/")}
            unflushed = (unflushed - moved) | {path + file.removeprefix(old_path) for file in moved}
            if is_visible(path):
                yield from (
                    f"{file} is not flushed when {path} appears" for file in sorted(filter(is_visible, unflushed))
                )
                unflushed = {file for file in unflushed if not is_visible(file)} | {_parent(path)}
    yield from (f"{path} is not flushed at the end" for path in sorted(filter(is_visible, unflushed)))


def _parent(path: str) -> str:
    return path.rpartition("/")[0] or "."
