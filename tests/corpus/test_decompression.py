"""Compressed and endless files: bounded memory, and one line for every defect."""

from __future__ import annotations

import gzip
import lzma
import os
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from manyglot.corpus import textfiles
from manyglot.corpus.decompression import read_file_blocks, read_input_blocks
from manyglot.errors import CorpusError, ManyglotError

COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".xz": lzma.compress,
    ".zst": zstandard.compress,
}
TEXT = b"".join(b"line %d\n" % number for number in range(2000))


@pytest.mark.parametrize("suffix", COMPRESS)
def test_several_streams_and_padding_are_read(suffix: str, tmp_path: Path) -> None:
    path, compress = tmp_path / f"text{suffix}", COMPRESS[suffix]
    path.write_bytes(compress(TEXT) + compress(b"") + compress(b"end\n") + b"\0" * 8)
    assert b"".join(read_file_blocks(path)) == TEXT + b"end\n"


def read_or_error(path: Path) -> bytes | str:
    try:
        return b"".join(read_file_blocks(path))
    except ManyglotError as error:
        return str(error)


@pytest.mark.parametrize("suffix", COMPRESS)
def test_damaged_compressed_files_are_one_line(suffix: str, tmp_path: Path) -> None:
    path, content = tmp_path / f"text{suffix}", COMPRESS[suffix](TEXT)
    damaged = [content[:end] for end in range(0, len(content), 1 + len(content) // 20)]
    damaged += [content[:i] + bytes([content[i] ^ 16]) + content[i + 1 :] for i in range(0, len(content), 97)]
    damaged += [content + b"garbage"]
    for each in damaged:
        path.write_bytes(each)
        outcome = read_or_error(path)
        if isinstance(outcome, str):
            assert outcome.startswith(f"{path} is truncated, or its content does not match its suffix")
        else:
            assert outcome == TEXT or suffix == ".zst"  # zstandard writes no checksum here


@pytest.mark.parametrize("suffix", COMPRESS)
def test_an_endless_line_is_refused_in_bounded_memory(
    suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(textfiles, "MAX_LINE_BYTES", 2**17)
    path = tmp_path / f"text{suffix}"
    path.write_bytes(COMPRESS[suffix](b"first\n") + COMPRESS[suffix](b"a" * 2**22) * 64)
    tracemalloc.start()
    with pytest.raises(ManyglotError, match=r"text.*, line 2 is longer than 131,072 bytes\. Put every sentence on"):
        list(textfiles.read_lines(path))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**26  # a quarter of the text


def test_an_xz_file_that_needs_much_memory_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "text.xz"
    path.write_bytes(lzma.compress(b"a\n", filters=[{"id": lzma.FILTER_LZMA2, "preset": 0, "dict_size": 2**30}]))
    with pytest.raises(ManyglotError, match="Memory usage limit exceeded"):
        list(read_file_blocks(path))


def test_only_regular_files_are_corpora_but_translation_may_read_a_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path, Path("/dev/zero")):
        with pytest.raises(ManyglotError, match=r"is not a file|Is a directory"):
            list(read_file_blocks(path))
    reader, writer = os.pipe()
    os.write(writer, b"text\n")
    os.close(writer)
    assert list(read_input_blocks(Path(f"/dev/fd/{reader}"))) == [b"text\n"]
    os.close(reader)


def test_a_device_that_never_ends_is_refused() -> None:
    with pytest.raises(CorpusError, match="/dev/zero is a device"):
        list(read_input_blocks(Path("/dev/zero")))
    assert list(read_input_blocks(Path("/dev/null"))) == []
