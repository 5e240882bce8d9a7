"""Locked and atomically written folders, and safe reading of files from untrusted folders."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from manyglot.errors import FolderError

StrPath = str | os.PathLike[str]
"""A path in any form that the Python API accepts."""

try:
    import fcntl
except ImportError:  # Windows has no fcntl, so nothing is locked there
    fcntl = None  # type: ignore[assignment]


def optional_path(path: StrPath | None) -> Path | None:
    """Convert to a Path; None stays None."""
    return None if path is None else Path(path)


def is_empty_folder(folder: Path) -> bool:
    """Whether the path is a folder without content."""
    return folder.is_dir() and not any(folder.iterdir())


def nearest_existing_folder(folder: Path) -> Path:
    """Return the folder itself, or its nearest ancestor that exists."""
    return next(path for path in (folder, *folder.absolute().parents) if path.exists())


def read_small_file(path: Path, max_bytes: int) -> bytes:
    """Read a whole regular file; raise an error if it has more than `max_bytes` bytes."""
    content = read_first_bytes(path, max_bytes + 1)
    if len(content) > max_bytes:
        raise FolderError(f"{path} is damaged: it has more than {max_bytes:,} bytes.")
    return content


def read_first_bytes(path: Path, num_bytes: int) -> bytes:
    """Read the first bytes of a regular file; raise an error, without blocking, if it is a folder or a pipe."""
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
        with open(handle, "rb") as file:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                raise FolderError(f"{path} is not a file.")
            return file.read(num_bytes)
    except OSError as error:
        raise FolderError(f"Cannot read {path}: {error.strerror or error}.") from None


def file_sha256(path: Path) -> str:
    """Return the SHA-256 checksum of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def locked_folder(folder: Path) -> Iterator[None]:
    """Create a folder if it is missing and hold an exclusive lock on it.

    The operating system releases the lock when the process ends, even if it is killed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    handle = os.open(folder, os.O_RDONLY) if fcntl else None
    try:
        if handle is not None:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise FolderError(
                    f"Another process is writing {folder}. Wait until it ends, or choose another folder."
                ) from None
            except OSError:  # the file system does not support locks
                pass
        yield
    finally:
        if handle is not None:
            os.close(handle)


def _os_error_reason(error: OSError) -> str:
    """Return the system's reason for an error; NumPy reports a full disk without one."""
    return error.strerror or f"is the disk full? ({str(error).rstrip('.')})"


def _fsync(path: Path) -> None:
    """Flush a file or folder to disk, so that it survives a power failure."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _delete_contents(folder: Path) -> None:
    """Delete the contents of a folder."""
    for path in folder.iterdir():
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


def unfinished_path(folder: Path) -> Path:
    """Return the temporary path of a folder while it is being written."""
    return folder.with_name(folder.name + ".unfinished")


@contextmanager
def resumable_folder(folder: Path, provenance: Mapping[str, Any]) -> Iterator[Path]:
    """Write a folder atomically, as `atomic_folder` does, but keep unfinished work for the next attempt.

    The unfinished folder records its provenance. If that differs from the given one, the contents are deleted.
    """
    unfinished = unfinished_path(folder)
    record, text = unfinished / "origin.json", json.dumps(provenance, sort_keys=True)
    try:
        with locked_folder(unfinished):
            if not (record.exists() and record.read_text("utf-8") == text):
                _delete_contents(unfinished)
            record.write_text(text, encoding="utf-8")
            yield unfinished
            unfinished.rename(folder)
            (folder / record.name).unlink()
    except OSError as error:
        raise FolderError(f"Cannot write {folder}: {_os_error_reason(error)}.") from None


@contextmanager
def atomic_folder(folder: Path) -> Iterator[Path]:
    """Yield a temporary folder to write to, and rename it at the end, so that an existing folder is always complete.

    An existing folder is never overwritten. A failure leaves nothing behind, and the remains of a killed process are
    deleted.
    """
    unfinished = unfinished_path(folder)
    if folder.exists() and not is_empty_folder(folder):
        raise FolderError(f"{folder} already exists. Choose another folder, or delete it.")
    try:
        with locked_folder(unfinished):
            try:
                _delete_contents(unfinished)
                yield unfinished
                for path in unfinished.rglob("*"):  # safetensors writes files that only the owner may read
                    path.chmod(path.stat().st_mode | unfinished.stat().st_mode & 0o444)
                for path in (*unfinished.rglob("*"), unfinished):
                    _fsync(path)
                unfinished.rename(folder)
                _fsync(folder.parent)
            finally:
                shutil.rmtree(unfinished, ignore_errors=True)
    except OSError as error:
        raise FolderError(f"Cannot write {folder}: {_os_error_reason(error)}.") from None
