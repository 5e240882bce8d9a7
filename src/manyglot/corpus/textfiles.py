"""Read and write text files with one sentence per line, plain or compressed. Errors name the file and the line."""

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

from manyglot.corpus.base import Row
from manyglot.errors import CorpusError

COMPRESSED_SUFFIXES = (".gz", ".xz", ".zst")
"""Suffixes of compressed files, which are decompressed while reading."""


def uncompressed_name(path: Path) -> str:
    """The file name without the suffix of its compression format."""
    return path.stem if path.suffix in COMPRESSED_SUFFIXES else path.name


def read_lines(path: Path) -> Iterator[str]:
    """Yield the lines of a UTF-8 file without line endings. Compressed files are recognized by their suffix."""
    with _as_corpus_errors(path):
        lines = _zst_lines(path) if path.suffix == ".zst" else _binary_lines(path)
        yield from decode_lines(_check_newlines(lines, path), str(path))


def read_byte_blocks(path: Path) -> Iterator[bytes]:
    """Yield the decompressed bytes of a file block by block, regardless of line boundaries."""
    with _as_corpus_errors(path):
        if path.suffix == ".zst":
            yield from _zst_blocks(path)
        else:
            with _open(path) as file:
                while block := file.read(2**16):
                    yield block


@contextmanager
def _as_corpus_errors(path: Path) -> Iterator[None]:
    """Turn read errors into `CorpusError` with the name of the file."""
    try:
        yield
    except (EOFError, lzma.LZMAError, gzip.BadGzipFile, zlib.error):
        raise CorpusError(
            f"{path} is truncated, or its content does not match its suffix. Download or copy it again."
        ) from None
    except OSError as error:
        raise CorpusError(f"Cannot read {path}: {error.strerror or error}.") from None


def _open(path: Path) -> IO[bytes]:
    """Open a file that is plain or compressed with gzip or xz."""
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
    for block in _zst_blocks(path):
        *lines, rest = (rest + block).split(b"\n")
        yield from (line + b"\n" for line in lines)
    if rest:
        yield rest


def _zst_blocks(path: Path) -> Iterator[bytes]:
    """Decompress a zstd file block by block. The library's own reader would accept a truncated file as complete."""
    try:
        import zstandard
    except ImportError:
        raise CorpusError(f"To read {path}, install zstandard: pip install 'manyglot[zst]'.") from None
    frame = zstandard.ZstdDecompressor().decompressobj()
    with path.open("rb") as file:
        while data := file.read(2**12):  # small blocks, because a few bytes can expand to 128 KiB
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


def _check_newlines(lines: Iterator[bytes], path: Path) -> Iterator[bytes]:
    """Pass lines through, but refuse files with bare carriage returns, which would be read as one sentence."""
    first = next(lines, b"")
    if not first.endswith(b"\n") and b"\r" in first.strip():
        raise CorpusError(f"{path} separates lines with carriage returns. Convert them to newlines.")
    yield from chain([first] if first else [], lines)


def decode_lines(lines: Iterable[bytes], name: str) -> Iterator[str]:
    """Decode lines of UTF-8. Invalid bytes raise an error with the line number.

    Only a newline ends a line. Python also splits at other Unicode separators, but those occur inside real sentences. A
    byte order mark at the beginning is removed.
    """
    for number, line in enumerate(lines, start=1):
        try:
            yield line.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
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
        stat = path.stat()
        digest.update(f"{path.name} {stat.st_size} {stat.st_mtime_ns}\n".encode())
    return digest.hexdigest()
