"""Read and write text files with one sentence per line, plain or compressed. Errors name the file and the line."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from itertools import chain, islice, zip_longest
from pathlib import Path

from manyglot.corpus.base import Row
from manyglot.corpus.decompression import read_file_blocks
from manyglot.errors import CorpusError

MAX_LINE_BYTES = 2**22
"""Maximum size of a line of a corpus, and of a sentence. It bounds the memory of every command that reads text."""


def read_lines(path: Path) -> Iterator[str]:
    """Yield the lines of a UTF-8 file without line endings. Compressed files are recognized by their suffix."""
    return decode_lines(_check_newlines(split_lines(read_file_blocks(path), MAX_LINE_BYTES), path), str(path))


def split_lines(blocks: Iterable[bytes], max_bytes: int) -> Iterator[bytes | None]:
    """Yield the lines without their newlines, and None for a line of more than `max_bytes`.

    Memory is bounded even if a line never ends. None is yielded as soon as the line is too long.
    """
    unfinished, is_skipping = b"", False
    for block in blocks:
        *complete, last = block.split(b"\n")
        for part in complete:
            if is_skipping:
                is_skipping = False
                continue
            line, unfinished = unfinished + part, b""
            yield line if len(line) <= max_bytes else None
        if not is_skipping:
            unfinished += last
            if len(unfinished) > max_bytes:
                yield None
                unfinished, is_skipping = b"", True
    if unfinished:
        yield unfinished


def _check_newlines(lines: Iterator[bytes | None], path: Path) -> Iterator[bytes | None]:
    """Pass lines through, but refuse files with bare carriage returns, which would be read as one sentence."""
    first_lines = list(islice(lines, 2))
    if len(first_lines) == 1 and first_lines[0] and b"\r" in first_lines[0].strip():
        raise CorpusError(f"{path} separates lines with carriage returns. Convert them to newlines.")
    yield from chain(first_lines, lines)


def decode_lines(lines: Iterable[bytes | None], name: str) -> Iterator[str]:
    """Decode lines of UTF-8. A line that is too long (None), is not UTF-8 or has a NUL raises an error with its number.

    Only a newline ends a line. Python also splits at other Unicode separators, but those occur inside real sentences. A
    byte order mark at the beginning is removed.
    """
    for number, line in enumerate(lines, start=1):
        if line is None:
            raise CorpusError(
                f"{name}, line {number} is longer than {MAX_LINE_BYTES:,} bytes. Put every sentence on its own line."
            )
        if b"\0" in line:
            raise CorpusError(f"{name}, line {number} has a NUL byte. Convert UTF-16 to UTF-8, or remove the byte.")
        try:
            yield line.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r")
        except UnicodeDecodeError:
            raise CorpusError(f"{name}, line {number} is not UTF-8. Convert the file to UTF-8.") from None


def to_single_line(text: str) -> str:
    """Strip a sentence and replace line breaks with spaces, so that it fits on one line of a file."""
    return text.replace("\r", " ").replace("\n", " ").strip()


def read_aligned_rows(paths: dict[str, Path]) -> Iterator[dict[str, str]]:
    """Read line-aligned files as rows. An empty line means that the language lacks this sentence."""
    for number, lines in enumerate(zip_longest(*(read_lines(path) for path in paths.values())), start=1):
        row = dict(zip(paths, lines, strict=True))
        ended = [str(paths[code]) for code, line in row.items() if line is None]
        if ended and number == 1:
            raise CorpusError(f"{ended[0]} is empty, but other files of the split are not. Add its text, or remove it.")
        if ended:
            raise CorpusError(
                f"{ended[0]} ends before line {number}, but other files of the split are longer. "
                f"All files of a split need the same number of lines."
            )
        sentences = {code: to_single_line(line) for code, line in row.items()}
        yield {code: sentence for code, sentence in sentences.items() if sentence}


def write_aligned_rows(folder: Path, split: str, codes: Iterable[str], rows: Iterable[Row]) -> int:
    """Write rows to `split.code` files, with an empty line for a missing sentence. Returns the number of rows."""
    folder.mkdir(parents=True, exist_ok=True)
    num_rows = 0
    with ExitStack() as stack:
        files = {
            c: stack.enter_context((folder / f"{split}.{c}").open("w", encoding="utf-8", newline="\n")) for c in codes
        }
        for row in rows:
            num_rows += 1
            for code, file in files.items():
                file.write(to_single_line(row.get(code, "")) + "\n")
    return num_rows


def fingerprint_files(paths: Iterable[Path]) -> str:
    """A digest of names, sizes and modification times: cheap to compute, and different after an edit."""
    digest = hashlib.sha256()
    for path in sorted(paths):
        try:
            stat = path.stat()
        except OSError as error:  # such as a link to nowhere
            raise CorpusError(f"Cannot read {path}: {error.strerror}.") from None
        digest.update(f"{path.name} {stat.st_size} {stat.st_mtime_ns}\n".encode())
    return digest.hexdigest()
