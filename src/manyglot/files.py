"""Folders that are written whole or not at all, and files of folders that may come from anybody."""

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
"""A path as users of the Python API may give it."""

try:
    import fcntl
except ImportError:  # there is none on Windows, where nothing is locked
    fcntl = None  # type: ignore[assignment]


def optional_path(path: StrPath | None) -> Path | None:
    """The path, if there is one."""
    return None if path is None else Path(path)


def is_empty(folder: Path) -> bool:
    """Whether a folder holds nothing; a file is not an empty folder."""
    return folder.is_dir() and not any(folder.iterdir())


def nearest(folder: Path) -> Path:
    """The folder itself or the nearest one above it that exists."""
    return next(path for path in (folder, *folder.absolute().parents) if path.exists())


def read_file(path: Path, most: int) -> bytes:
    """The content of a file, unless it has more bytes than that or is no file, but a folder or a pipe, say."""
    content = read_start(path, most + 1)
    if len(content) > most:
        raise FolderError(f"{path} has more than {most:,} bytes, which no such file needs.")
    return content


def read_start(path: Path, number: int) -> bytes:
    """The first bytes of a file; what is no file is not waited for."""
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
        with open(handle, "rb") as file:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                raise FolderError(f"{path} is not a file.")
            return file.read(number)
    except OSError as error:
        raise FolderError(f"Cannot read {path}: {error.strerror or error}.") from None


def checksum(path: Path) -> str:
    """The SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Make a folder, if it is not there, and keep it for this process; the system lets it go however we end."""
    folder.mkdir(parents=True, exist_ok=True)
    handle = os.open(folder, os.O_RDONLY) if fcntl else None
    try:
        if handle is not None:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise FolderError(f"Another process is writing {folder}. Wait for it, or choose another.") from None
            except OSError:  # a file system without locks
                pass
        yield
    finally:
        if handle is not None:
            os.close(handle)


def _reason(error: OSError) -> str:
    """What the system says; numpy only counts what it could write."""
    return error.strerror or f"is the disk full? ({str(error).rstrip('.')})"


def _onto_disk(path: Path) -> None:
    """Wait until a file or folder would survive a loss of power."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _clear(folder: Path) -> None:
    """Delete what is in a folder."""
    for path in folder.iterdir():
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


def unfinished_of(folder: Path) -> Path:
    """Where a folder is while it is written."""
    return folder.with_name(folder.name + ".unfinished")


@contextmanager
def continued(folder: Path, origin: Mapping[str, Any]) -> Iterator[Path]:
    """As `written_whole`, for work that goes on where it was interrupted: what is done stays for the next time.

    The unfinished folder remembers what it is made from; work of another origin is cleared away.
    """
    unfinished = unfinished_of(folder)
    note, text = unfinished / "origin.json", json.dumps(origin, sort_keys=True)
    try:
        with held(unfinished):
            if not (note.exists() and note.read_text("utf-8") == text):
                _clear(unfinished)
            note.write_text(text, encoding="utf-8")
            yield unfinished
            unfinished.rename(folder)
            (folder / note.name).unlink()
    except OSError as error:
        raise FolderError(f"Cannot write {folder}: {_reason(error)}.") from None


@contextmanager
def written_whole(folder: Path) -> Iterator[Path]:
    """Yield a folder to write to, and move it to its place at the end: what is there can always be used.

    Nothing is overwritten. A failure leaves nothing behind, and what a killed program left is cleared away.
    """
    unfinished = unfinished_of(folder)
    if folder.exists() and not is_empty(folder):
        raise FolderError(f"{folder} exists. Choose another folder, or delete it.")
    try:
        with held(unfinished):
            try:
                _clear(unfinished)
                yield unfinished
                for path in unfinished.rglob("*"):  # safetensors writes files that nobody else may read
                    path.chmod(path.stat().st_mode | unfinished.stat().st_mode & 0o444)
                for path in (*unfinished.rglob("*"), unfinished):
                    _onto_disk(path)
                unfinished.rename(folder)
                _onto_disk(folder.parent)
            finally:
                shutil.rmtree(unfinished, ignore_errors=True)
    except OSError as error:
        raise FolderError(f"Cannot write {folder}: {_reason(error)}.") from None
