"""Read plain and compressed files block by block, in bounded memory. Errors name the file."""

from __future__ import annotations

import lzma
import os
import stat
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Any, Protocol

from manyglot.errors import CorpusError
from manyglot.files import open_regular_file

COMPRESSED_SUFFIXES = (".gz", ".xz", ".zst")
"""Suffixes of compressed files, which are decompressed while reading."""
BLOCK_BYTES = 2**16
"""Maximum size of the blocks that are returned."""
COMPRESSED_BLOCK_BYTES = 2**10
"""Size of the blocks that are decompressed at once. Four bytes can expand to 128 KiB, so one block to 32 MiB."""
MAX_XZ_MEMORY_BYTES = 2**28
"""Maximum memory of the xz decompressor. `xz -9` needs 65 MiB."""
_GZIP_FORMAT = 16 + zlib.MAX_WBITS


class NamedFile(Protocol):
    """A path, or anything else with the parts of a file name."""

    @property
    def name(self) -> str:
        """The file name."""

    @property
    def stem(self) -> str:
        """The file name without its last suffix."""

    @property
    def suffix(self) -> str:
        """The last suffix of the file name, such as `.gz`."""


def uncompressed_name(path: NamedFile) -> str:
    """The file name without the suffix of its compression format."""
    return path.stem if path.suffix in COMPRESSED_SUFFIXES else path.name


def read_file_blocks(path: Path) -> Iterator[bytes]:
    """Yield the decompressed bytes of a regular file block by block, regardless of line boundaries."""
    with as_corpus_errors(path), open_regular_file(path) as file:
        yield from decompress_blocks(file, path)


def read_input_blocks(path: Path) -> Iterator[bytes]:
    """Yield the decompressed bytes of a file as `read_file_blocks` does. It may also be a pipe, or a terminal."""
    with as_corpus_errors(path), path.open("rb") as file:
        mode, is_empty_device = os.fstat(file.fileno()).st_mode, os.path.realpath(path) == os.devnull
        if (stat.S_ISCHR(mode) or stat.S_ISBLK(mode)) and not file.isatty() and not is_empty_device:
            raise CorpusError(f"{path} is a device. Give a file or a pipe.")
        yield from decompress_blocks(file, path)


@contextmanager
def as_corpus_errors(path: NamedFile) -> Iterator[None]:
    """Turn read errors into a `CorpusError` with the name of the file."""
    try:
        yield
    except (EOFError, lzma.LZMAError, zlib.error) as error:
        reason = f" ({error})" if str(error) else ""
        raise CorpusError(
            f"{path} is truncated, or its content does not match its suffix{reason}. Download or copy it again."
        ) from None
    except OSError as error:
        raise CorpusError(f"Cannot read {path}: {error.strerror or error}.") from None


def decompress_blocks(file: IO[bytes], path: NamedFile) -> Iterator[bytes]:
    """Yield the bytes of an open file block by block, decompressed as the suffix of its name says."""
    match path.suffix:
        case ".gz":
            return _decompress(file, partial(zlib.decompressobj, _GZIP_FORMAT))
        case ".xz":
            return _decompress(file, partial(lzma.LZMADecompressor, lzma.FORMAT_XZ, MAX_XZ_MEMORY_BYTES))
        case ".zst":
            return _decompress(file, _zst_decompressor(path))
    return iter(partial(file.read, BLOCK_BYTES), b"")


def _decompress(file: IO[bytes], make_decompressor: Callable[[], Any]) -> Iterator[bytes]:
    """Decompress a file of one or more streams. A truncated file raises an EOFError."""
    stream = make_decompressor()
    while data := file.read(COMPRESSED_BLOCK_BYTES):
        while data:
            if stream.eof:
                data = data.lstrip(b"\0")  # streams may be padded
                if not data:
                    break
                stream = make_decompressor()
            content = stream.decompress(data)
            for start in range(0, len(content), BLOCK_BYTES):
                yield content[start : start + BLOCK_BYTES]
            data = stream.unused_data if stream.eof else b""
    if not stream.eof:
        raise EOFError


def _zst_decompressor(path: NamedFile) -> Callable[[], Any]:
    try:
        import zstandard
    except ImportError:
        raise CorpusError(f"To read {path}, install zstandard: pip install 'manyglot[zst]'.") from None

    class ZstDecompressor:
        """Decompresses a zstd frame as the decompressors of the standard library do."""

        def __init__(self) -> None:
            self._frame = zstandard.ZstdDecompressor().decompressobj()

        @property
        def eof(self) -> bool:
            return self._frame.eof

        @property
        def unused_data(self) -> bytes:
            return self._frame.unused_data

        def decompress(self, data: bytes) -> bytes:
            try:
                return self._frame.decompress(data)
            except zstandard.ZstdError as error:
                raise EOFError(error) from None

    return ZstDecompressor
