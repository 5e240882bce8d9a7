"""Read text files inside zip archives, in bounded memory and without extracting them. Errors name archive and member.

An archive is refused as a whole if its list of members is suspicious: paths that lead outside, links, encryption,
archives inside, members that share their data, or text that was compressed more than text can be.
"""

from __future__ import annotations

import stat
import struct
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from manyglot.corpus.decompression import as_corpus_errors, decompress_blocks, read_file_blocks
from manyglot.errors import CorpusError, shorten
from manyglot.files import open_regular_file

MAX_DIRECTORY_BYTES = 2**22
"""Maximum size of the list of members, which is read as a whole: about 40,000 members."""
MAX_EXPANSION, SMALL_BYTES = 100, 2**26
"""Members above `SMALL_BYTES` may not expand by a larger factor. Text expands by 2 to 10."""
_ARCHIVE_SUFFIXES = {".zip", ".tar", ".tgz", ".7z", ".rar"}
_READABLE_METHODS = {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}


@dataclass(frozen=True)
class ZipMember:
    """A file inside a zip archive, with the attributes of a path that readers of text need."""

    archive: Path
    member: str

    @property
    def name(self) -> str:
        """The file name, without folders."""
        return PurePosixPath(self.member).name

    @property
    def suffix(self) -> str:
        """The last suffix of the file name, such as `.gz`."""
        return PurePosixPath(self.member).suffix

    @property
    def stem(self) -> str:
        """The file name without its last suffix."""
        return PurePosixPath(self.member).stem

    def __str__(self) -> str:
        return f"{self.archive}:{shorten(self.member)}"


TextSource = Path | ZipMember
"""A file on disk or inside a zip archive."""


def list_zip_members(path: Path) -> list[ZipMember]:
    """Return the files of an archive in the order of their names; raise an error if the archive is suspicious."""
    with _open_archive(path) as archive:
        infos = [info for info in archive.infolist() if not info.is_dir()]
        for info in infos:
            _check_member(path, info)
        _check_data_is_separate(path, infos)
    return [ZipMember(path, name) for name in sorted(info.filename for info in infos)]


def read_source_blocks(source: TextSource) -> Iterator[bytes]:
    """Yield the decompressed bytes of a file block by block. Members of archives may be compressed files themselves."""
    if isinstance(source, Path):
        yield from read_file_blocks(source)
        return
    with (
        as_corpus_errors(source),
        _open_archive(source.archive, source) as archive,
        archive.open(source.member) as file,
    ):
        yield from decompress_blocks(file, source)


@contextmanager
def _open_archive(path: Path, source: TextSource | None = None) -> Iterator[zipfile.ZipFile]:
    """Open an archive, and turn the errors of damaged ones into a `CorpusError`."""
    try:
        with open_regular_file(path) as file, zipfile.ZipFile(_DirectoryLimit(file, path)) as archive:
            yield archive
    except (
        zipfile.BadZipFile, NotImplementedError, RuntimeError, LookupError, ValueError, OverflowError, struct.error
    ) as error:  # fmt: skip
        reason = shorten(str(error).strip("'\"").rstrip(".")) or type(error).__name__
        raise CorpusError(f"{source or path} cannot be read as zip ({reason}). Download or copy it again.") from None


class _DirectoryLimit:
    """A file that refuses to read a large list of members at once, whatever the archive claims."""

    def __init__(self, file: BinaryIO, path: Path) -> None:
        self._file, self._path = file, path
        self.seek, self.tell, self.seekable = file.seek, file.tell, file.seekable

    def read(self, size: int = -1) -> bytes:
        """Read at most `size` bytes, or the rest of the file."""
        content = self._file.read(MAX_DIRECTORY_BYTES + 1 if size < 0 else min(size, MAX_DIRECTORY_BYTES + 1))
        if len(content) > MAX_DIRECTORY_BYTES:
            raise CorpusError(f"{self._path} holds too many files. Unpack it and give the folder.")
        return content


def _check_member(path: Path, info: zipfile.ZipInfo) -> None:
    name, parts = shorten(info.filename), PurePosixPath(info.filename.replace("\\", "/")).parts
    if ".." in parts or not parts or parts[0].startswith("/") or parts[0].endswith(":"):
        raise CorpusError(f"{path} holds '{name}', a path outside the archive. Use an archive from a trusted source.")
    if stat.S_ISLNK(info.external_attr >> 16):
        raise CorpusError(f"{path} holds the link '{name}'. Unpack it and give the folder.")
    if info.flag_bits & 1:
        raise CorpusError(f"{path} is encrypted ('{name}'). Unpack it and give the folder.")
    if PurePosixPath(info.filename).suffix.lower() in _ARCHIVE_SUFFIXES:
        raise CorpusError(f"{path} holds another archive, '{name}'. Unpack it and give the folder.")
    if info.compress_type not in _READABLE_METHODS:
        raise CorpusError(f"{path}: '{name}' has a rare compression method. Unpack it and give the folder.")
    if info.file_size > max(SMALL_BYTES, MAX_EXPANSION * info.compress_size):
        raise CorpusError(
            f"{path}: '{name}' expands more than {MAX_EXPANSION}-fold, to {info.file_size:,} bytes, so it is hardly "
            f"text. If you trust it, unpack it and give the folder."
        )


def _check_data_is_separate(path: Path, infos: list[zipfile.ZipInfo]) -> None:
    """Raise an error if two members have the same name or overlap, as in archives made to fill a disk."""
    names: set[str] = set()
    end = 0
    for info in sorted(infos, key=lambda each: each.header_offset):
        if info.filename in names:
            raise CorpusError(f"{path} holds '{shorten(info.filename)}' twice. Unpack it and keep one of them.")
        names.add(info.filename)
        if info.header_offset < end:
            raise CorpusError(f"{path} is damaged or malicious: '{shorten(info.filename)}' overlaps another file.")
        end = info.header_offset + info.compress_size
