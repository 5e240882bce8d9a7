"""Locked and atomically written folders.

The lock of a folder is an advisory lock on the folder itself (`flock`), so it needs no file, and the operating system
releases it when the process ends.

A folder that is being written has the name `FOLDER.unfinished` and is renamed, or deleted, by the process that holds
its lock. Another process may therefore wait for, and get, the lock on a folder that no longer has that name. Why two
processes never write the same folder nevertheless:

1. `locked_folder` compares the folder it has locked with the folder that now has the path, and starts again unless both
   are the same inode. So when it yields, the process holds the lock on the folder of that name.
2. Only the holder of the lock renames or deletes a locked folder. So the name keeps its inode until the holder itself
   changes it, and any other process that passes check 1 must hold a lock on this same inode, which is exclusive.
3. After the holder has renamed its folder, it never touches the old name again, because another process may have
   created a new folder there. An error or an interruption can come right after the renaming, so the holder makes check
   1 again before it cleans up: as long as the name has the locked inode, only the holder can change that.
4. Whether the final folder exists is checked while the lock is held, because the previous holder may just have created
   it.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from manyglot.errors import FolderError
from manyglot.files import (
    fsync_path,
    is_empty_folder,
    os_error_reason,
    read_text,
    unfinished_path,
    write_file,
)

try:
    import fcntl
except ImportError:  # Windows has no fcntl, so nothing is locked there
    fcntl = None  # type: ignore[assignment]


@contextmanager
def locked_folder(folder: Path) -> Iterator[Callable[[], bool]]:
    """Create a folder if it is missing and hold an exclusive lock on it.

    The operating system releases the lock when the process ends, even if it is killed. Yields a function that returns
    whether the path still has the locked folder.
    """
    handle = _lock(folder)
    try:
        yield lambda: folder.is_dir() if handle is None else _is_at(handle, folder)
    finally:
        if handle is not None:
            os.close(handle)


def _lock(folder: Path) -> int | None:
    """Lock the folder that has this path; return its handle, or None where folders cannot be locked."""
    if fcntl is None:
        folder.mkdir(parents=True, exist_ok=True)
        return None
    while True:
        try:
            _make_durable_folder(folder)
            handle = os.open(folder, os.O_RDONLY)
        except FileNotFoundError:  # another process has just renamed or deleted it
            continue
        except FileExistsError:
            if _is_folder_or_missing(folder):  # another process has just deleted it, and may have created it again
                continue
            raise
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            raise FolderError(
                f"Another process is writing {folder}. Wait until it ends, or choose another folder."
            ) from None
        except OSError:  # the file system does not support locks
            os.close(handle)
            return None
        if _is_at(handle, folder):
            return handle
        os.close(handle)


def _make_durable_folder(folder: Path) -> None:
    """Create a folder, and its parents, so that they survive a power failure; it may exist."""
    if folder.is_dir():
        return
    _make_durable_folder(folder.parent)
    folder.mkdir(exist_ok=True)
    fsync_path(folder.parent)


def _is_folder_or_missing(path: Path) -> bool:
    try:
        return stat.S_ISDIR(path.lstat().st_mode)
    except FileNotFoundError:
        return True


def _is_at(handle: int, folder: Path) -> bool:
    """Whether an open folder is still the one with this path."""
    try:
        return os.path.samestat(os.fstat(handle), os.stat(folder))
    except FileNotFoundError:
        return False


@contextmanager
def resumable_folder(folder: Path, provenance: Mapping[str, Any]) -> Iterator[Path]:
    """Write a folder atomically, as `atomic_folder` does, but keep unfinished work for the next attempt.

    The unfinished folder records its provenance. If that differs from the given one, the contents are deleted.
    """
    unfinished = unfinished_path(folder)
    record, text = unfinished / "origin.json", json.dumps(provenance, sort_keys=True)
    try:
        _check_absent(folder)
        with locked_folder(unfinished):
            _check_absent(folder)
            _delete_links(unfinished)
            if not _has_text(record, text):
                _delete_contents(unfinished)
            write_file(record, text)
            yield unfinished
            _publish(unfinished, folder, record)
    except OSError as error:
        raise FolderError(f"Cannot write {folder}: {os_error_reason(error)}.") from None


@contextmanager
def atomic_folder(folder: Path) -> Iterator[Path]:
    """Yield a temporary folder to write to, and rename it at the end, so that an existing folder is always complete.

    An existing folder is never overwritten. A failure leaves nothing behind, and the remains of a killed process are
    deleted.
    """
    unfinished = unfinished_path(folder)
    try:
        _check_absent(folder)
        with locked_folder(unfinished) as is_locked:
            try:
                _check_absent(folder)
                _delete_contents(unfinished)
                yield unfinished
                _publish(unfinished, folder)
            except BaseException:
                if is_locked():  # it is not renamed yet
                    shutil.rmtree(unfinished, ignore_errors=True)
                raise
    except OSError as error:
        raise FolderError(f"Cannot write {folder}: {os_error_reason(error)}.") from None


def _check_absent(folder: Path) -> None:
    try:
        is_absent = not folder.exists() or is_empty_folder(folder)
    except FileNotFoundError:  # deleted since the first check
        return
    if not is_absent:
        raise FolderError(f"{folder} already exists. Choose another folder, or delete it.")


def _has_text(record: Path, text: str) -> bool:
    try:
        return read_text(record) == text
    except FolderError:
        return False


def _publish(unfinished: Path, folder: Path, record: Path | None = None) -> None:
    """Flush everything to disk, delete the record and rename the folder.

    Nothing may touch the temporary name afterwards.
    """
    paths = [*unfinished.rglob("*"), unfinished]
    readable = unfinished.stat().st_mode & 0o444
    for path in paths:  # safetensors writes files that only the owner may read
        path.chmod(path.stat().st_mode | readable)
    for path in paths:
        fsync_path(path)
    if record is not None:
        record.unlink()
    unfinished.rename(folder)
    fsync_path(folder.parent)


def _delete_links(folder: Path) -> None:
    """Delete links in a folder: no command creates any, and writing to one could change a file elsewhere."""
    for path in folder.iterdir():
        if path.is_symlink():
            path.unlink()


def _delete_contents(folder: Path) -> None:
    """Delete the contents of a folder."""
    for path in folder.iterdir():
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
