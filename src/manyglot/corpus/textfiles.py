"""Text files of a corpus, one sentence a line, plain or compressed; errors name the file and the line."""

from __future__ import annotations

import gzip
import hashlib
import lzma
import zlib
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import chain, zip_longest
from pathlib import Path
from typing import IO, cast

from manyglot.corpus.rows import Row
from manyglot.errors import CorpusError

COMPRESSED = (".gz", ".xz", ".zst")
"""Endings of compressed files, which are read as if they were plain."""


def plain_name(path: Path) -> str:
    """A file's name without the ending of its compression."""
    return path.stem if path.suffix in COMPRESSED else path.name


def read_lines(path: Path) -> Iterator[str]:
    """Yield the lines of a UTF-8 file without their ends; compressed files are recognised by their names."""
    with _named_errors(path):
        lines = _zst_lines(path) if path.suffix == ".zst" else _binary_lines(path)
        yield from decode_lines(_ended_by_newlines(lines, path), str(path))


def read_pieces(path: Path) -> Iterator[bytes]:
    """Yield the bytes of a file a piece at a time, whatever its lines are; compressed files are recognised by names."""
    with _named_errors(path):
        if path.suffix == ".zst":
            yield from _zst_pieces(path)
        else:
            with _open(path) as file:
                while piece := file.read(2**16):
                    yield piece


@contextmanager
def _named_errors(path: Path) -> Iterator[None]:
    """Tell of a file that it cannot be read."""
    try:
        yield
    except (EOFError, lzma.LZMAError, gzip.BadGzipFile, zlib.error):
        raise CorpusError(f"{path} is truncated or not what its name says. Get it again.") from None
    except OSError as error:
        raise CorpusError(f"Cannot read {path}: {error.strerror or error}.") from None


def _open(path: Path) -> IO[bytes]:
    """A file that is plain or compressed by gzip or xz."""
    match path.suffix:
        case ".gz":
            return cast("IO[bytes]", gzip.GzipFile(path))
        case ".xz":
            return cast("IO[bytes]", lzma.LZMAFile(path))
    return path.open("rb")


def _binary_lines(path: Path) -> Iterator[bytes]:
    with _open(path) as file:
        yield from file


def _zst_lines(path: Path) -> Iterator[bytes]:
    rest = b""
    for piece in _zst_pieces(path):
        *lines, rest = (rest + piece).split(b"\n")
        yield from (line + b"\n" for line in lines)
    if rest:
        yield rest


def _zst_pieces(path: Path) -> Iterator[bytes]:
    """The bytes of a file compressed by zstd; the library's own reader takes a truncated file for a whole one."""
    try:
        import zstandard
    except ImportError:
        raise CorpusError(f"To read {path}, install zstandard: pip install 'manyglot[zst]'.") from None
    frame = zstandard.ZstdDecompressor().decompressobj()
    with path.open("rb") as file:
        while data := file.read(2**12):  # little: a few bytes can stand for 128 KiB
            while data:
                if frame.eof:
                    frame = zstandard.ZstdDecompressor().decompressobj()
                try:
                    yield frame.decompress(data)
                except zstandard.ZstdError:
                    raise EOFError from None
                data = frame.unused_data if frame.eof else b""
    if not frame.eof:
        raise EOFError


def _ended_by_newlines(lines: Iterator[bytes], path: Path) -> Iterator[bytes]:
    """The lines, unless they are ended by carriage returns alone, which would make one sentence of the file."""
    first = next(lines, b"")
    if not first.endswith(b"\n") and b"\r" in first.strip():
        raise CorpusError(f"{path} has carriage returns where its lines should end by newlines. Convert it first.")
    yield from chain([first] if first else [], lines)


def decode_lines(lines: Iterable[bytes], name: str) -> Iterator[str]:
    """Decode lines of UTF-8; anything else is refused with its line number.

    Only a newline ends a line: the Unicode separators that Python also splits at occur inside real sentences. A byte
    order mark at the beginning is no text.
    """
    for number, line in enumerate(lines, start=1):
        try:
            yield line.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
        except UnicodeDecodeError:
            raise CorpusError(f"{name}, line {number} is not UTF-8. Convert the text first.") from None


def one_line(text: str) -> str:
    """A sentence as all stages see it: without space around it and without what ends a line in a file."""
    return text.replace("\r", " ").replace("\n", " ").strip()


def read_aligned(paths: dict[str, Path]) -> Iterator[dict[str, str]]:
    """Read files whose line i is the same sentence; an empty line means that language has none there."""
    for number, lines in enumerate(zip_longest(*(read_lines(path) for path in paths.values())), start=1):
        row = dict(zip(paths, lines, strict=True))
        ended = [str(paths[code]) for code, line in row.items() if line is None]
        if ended:
            raise CorpusError(
                f"{ended[0]} ends before line {number} and other files of its split go on. "
                f"All files of a split need the same number of lines."
            )
        sentences = {code: one_line(line) for code, line in row.items()}
        yield {code: sentence for code, sentence in sentences.items() if sentence}


def write_aligned(folder: Path, split: str, codes: Iterable[str], rows: Iterable[Row]) -> int:
    """Write rows as `split.code` files, an empty line where a language has no sentence; return the number of rows."""
    folder.mkdir(parents=True, exist_ok=True)
    count = 0
    with ExitStack() as stack:
        files = {
            c: stack.enter_context((folder / f"{split}.{c}").open("w", encoding="utf-8", newline="\n")) for c in codes
        }
        for row in rows:
            count += 1
            for code, file in files.items():
                file.write(one_line(row.get(code, "")) + "\n")
    return count


def fingerprint_files(paths: Iterable[Path]) -> str:
    """A digest of names, sizes and times of change: cheap, and different when a file was edited."""
    digest = hashlib.sha256()
    for path in sorted(paths):
        stat = path.stat()
        digest.update(f"{path.name} {stat.st_size} {stat.st_mtime_ns}\n".encode())
    return digest.hexdigest()
