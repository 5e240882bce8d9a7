"""Guarded reading and atomic writing of files.

Every small file (settings, manifests, metadata, logs) is read by the functions here. They accept regular files only,
limit the size, and raise one-line errors. A pipe cannot block them, and `/dev/zero` cannot fill the memory.
"""

from __future__ import annotations

import errno
import json
import math
import os
import re
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

from manyglot.errors import FolderError, UnreadableFileError, shorten

StrPath = str | os.PathLike[str]
"""A path in any form that the Python API accepts."""

MAX_TEXT_BYTES = 2**26
"""Default size limit of a small file. No small file that manyglot writes comes near it."""
_SYSTEM_ERRORS = (errno.EACCES, errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EPERM, errno.ESTALE)
"""Errors of the system that say nothing about the content of a file."""
MAX_ERROR_CHARS = 300
"""Maximum length of another library's message that is quoted in an error."""
MAX_JSON_DEPTH, MAX_JSON_NUMBER_CHARS = 100, 100
"""How deeply JSON may be nested, and the maximum length of a number in it."""
_HUGGING_FACE_BLOB = re.compile(r"/(models|datasets)--[^/]+/blobs/[^/]+\Z")
_JSON_STRING_OR_BRACKET = re.compile(r'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)|[\[\]{}]', re.DOTALL)


def optional_path(path: StrPath | None) -> Path | None:
    """Convert to a Path; None stays None."""
    return None if path is None else Path(path)


def is_empty_folder(folder: Path) -> bool:
    """Whether the path is a folder without content."""
    return folder.is_dir() and not any(folder.iterdir())


def nearest_existing_folder(folder: Path) -> Path:
    """Return the folder itself, or its nearest ancestor that exists."""
    return next(path for path in (folder, *folder.absolute().parents) if path.exists())


@contextmanager
def open_regular_file(path: Path) -> Iterator[BinaryIO]:
    """Open a regular file for reading; raise a FolderError, without blocking, for anything else or if reading fails.

    The error is an UnreadableFileError if the cause is the system, such as a failing disk.
    """
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
        with open(handle, "rb") as file:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                raise FolderError(f"{path} is not a file.")
            yield file
    except (OSError, ValueError) as error:  # a path with a NUL byte is a ValueError
        kind = UnreadableFileError if getattr(error, "errno", None) in _SYSTEM_ERRORS else FolderError
        raise kind(f"Cannot read {path}: {getattr(error, 'strerror', None) or error}.") from None


def read_first_bytes(path: Path, num_bytes: int) -> bytes:
    """Read the first bytes of a regular file."""
    with open_regular_file(path) as file:
        return file.read(num_bytes)


def read_small_file(path: Path, max_bytes: int = MAX_TEXT_BYTES) -> bytes:
    """Read a whole regular file; raise a FolderError if it has more than `max_bytes` bytes."""
    content = read_first_bytes(path, max_bytes + 1)
    if len(content) > max_bytes:
        raise FolderError(f"{path} is too large: it has more than {max_bytes:,} bytes.")
    return content


def read_text(path: Path, max_bytes: int = MAX_TEXT_BYTES) -> str:
    """Read a whole UTF-8 file; raise a FolderError if it cannot be read, is not UTF-8 or is too large."""
    try:
        return read_small_file(path, max_bytes).decode("utf-8")
    except UnicodeDecodeError:
        raise FolderError(f"{path} is not UTF-8 text.") from None


def read_json(path: Path, max_bytes: int = MAX_TEXT_BYTES) -> Any:
    """Read a JSON file; raise a FolderError if it cannot be read, is not JSON, is nested too deeply or is too large."""
    try:
        return parse_json(read_text(path, max_bytes))
    except ValueError as error:
        raise_damaged(path, error)


def parse_json(text: str, strict: bool = True) -> Any:
    """Parse JSON; raise a ValueError with a short message if it is not valid.

    NaN, infinite and very long numbers, keys given twice and deep nesting are not valid. `strict` refuses control
    characters in strings.
    """
    if text.count("[") + text.count("{") > MAX_JSON_DEPTH:
        _check_json_depth(text)
    return json.loads(
        text,
        strict=strict,
        parse_constant=_parse_finite,
        parse_float=_parse_finite,
        parse_int=_parse_integer,
        object_pairs_hook=_make_object,
    )


def read_json_object(path: Path, max_bytes: int = MAX_TEXT_BYTES) -> dict[str, Any]:
    """Read a JSON file that holds an object; raise a FolderError for anything else."""
    value = read_json(path, max_bytes)
    if not isinstance(value, dict):
        raise FolderError(f"{path} is damaged (it should hold a JSON object).")
    return value


def _check_json_depth(text: str) -> None:
    depth = 0
    for match in _JSON_STRING_OR_BRACKET.finditer(text):
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(match[0], 0)
        if depth > MAX_JSON_DEPTH:
            raise ValueError(f"nested more than {MAX_JSON_DEPTH} levels deep")


def _parse_finite(number: str) -> float:
    if not math.isfinite(value := float(number)):
        raise ValueError(f"{number[:20]} is not a finite number")
    return value


def _parse_integer(number: str) -> int:
    if len(number) > MAX_JSON_NUMBER_CHARS:
        raise ValueError(f"a number has more than {MAX_JSON_NUMBER_CHARS} digits")
    return int(number)


def _make_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for key, value in pairs:
        if key in values:
            raise ValueError(f"{shorten(key)!r} is given twice")
        values[key] = value
    return values


def raise_damaged(path: Path, error: Exception) -> NoReturn:
    """Raise the FolderError of a file whose content is wrong, with a short reason."""
    reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)[:MAX_ERROR_CHARS]
    raise FolderError(f"{path} is damaged ({reason or type(error).__name__}).") from None


def check_links(folder: Path, names: Iterable[str] | None = None) -> None:
    """Raise a FolderError if a file of a folder is a link to a file outside the folder.

    Somebody else may have made the folder: a link in it could lead manyglot to read, copy or overwrite any file of the
    user. `names` limits the check to some files. Files with a checksum may be links, because their content is checked.
    Links into `models--OWNER--NAME/blobs` are allowed, because the Hugging Face cache consists of them.
    """
    try:
        root = Path(os.path.realpath(folder))
        paths = [folder / name for name in names] if names is not None else list(folder.iterdir())
        for path in paths:
            target = Path(os.path.realpath(path))
            is_inside = root in target.parents or _HUGGING_FACE_BLOB.search(target.as_posix())
            if path.is_symlink() and not path.is_dir() and not is_inside:
                raise FolderError(
                    f"{path} is a link to {target}, outside its folder. Replace it by a copy of the file."
                )
    except OSError as error:
        raise FolderError(f"Cannot read {folder}: {os_error_reason(error)}.") from None


def write_file(path: Path, content: str | bytes) -> None:
    """Write a file atomically and durably: after a crash or a full disk, it has its old content or all of the new.

    The folder must exist. Errors are OSErrors, as those of `Path.write_bytes`.
    """
    with replacing_file(path) as unfinished:
        unfinished.write_bytes(content.encode("utf-8") if isinstance(content, str) else content)


def write_json(path: Path, value: Any, indent: int | None = 2) -> None:
    """Write a value as JSON, atomically. All its numbers must be finite."""
    write_file(path, json.dumps(value, indent=indent, ensure_ascii=False, allow_nan=False) + "\n")


@contextmanager
def replacing_file(path: Path) -> Iterator[Path]:
    """Yield a temporary path to write to; at the end, flush it to disk and rename it to `path`.

    If anything fails, the temporary file is deleted and an earlier `path` is unchanged. A file that is not regular,
    such as `/dev/stdout` or a pipe, is written directly, and a link is followed.
    """
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file():
        yield target
        return
    unfinished = unfinished_path(target)
    try:
        yield unfinished
        if target.exists():
            unfinished.chmod(stat.S_IMODE(target.stat().st_mode))
        fsync_path(unfinished)
        unfinished.replace(target)
    except BaseException:
        with suppress(OSError):
            unfinished.unlink(missing_ok=True)
        raise
    fsync_path(target.parent)


def unfinished_path(path: Path) -> Path:
    """Return the temporary path of a file or folder while it is being written."""
    return path.with_name(path.name + ".unfinished")


def fsync_path(path: Path) -> None:
    """Flush a file or folder to disk, so that it survives a power failure."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def report_unwritable(path: Path) -> Iterator[None]:
    """Convert a failure to write a file or folder, such as a full disk, to a one-line FolderError."""
    try:
        yield
    except OSError as error:
        raise FolderError(f"Cannot write {path}: {os_error_reason(error)}.") from None


def os_error_reason(error: OSError) -> str:
    """Return the system's reason for an error, and what to do about a full disk; NumPy reports one without a reason."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"{error.strerror}; make room and run the same command again"
    return error.strerror or f"is the disk full? ({str(error).rstrip('.')})"
