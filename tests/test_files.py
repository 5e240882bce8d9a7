from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from manyglot.errors import FolderError
from manyglot.files import open_regular_file, read_json, read_json_object, read_small_file, read_text, write_file


@pytest.mark.parametrize("read", [read_small_file, read_text, read_json, read_json_object])
def test_only_regular_files_are_read(read: Callable[[Path], Any], tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "pipe link").symlink_to("pipe")
    for path in (tmp_path / "pipe", tmp_path / "pipe link", tmp_path, Path("/dev/zero"), Path("/dev/stdin")):
        with pytest.raises(FolderError, match=r"is not a file|Is a directory"):
            read(path)
    for path in (tmp_path / "missing", tmp_path / "nul\0byte"):
        with pytest.raises(FolderError, match="Cannot read"):
            read(path)


def test_a_file_over_the_limit_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"12345")
    assert read_small_file(tmp_path / "a", 5) == b"12345"
    with pytest.raises(FolderError, match="more than 4 bytes"):
        read_small_file(tmp_path / "a", 4)


@pytest.mark.parametrize(
    "content", [b"{", b"[" * 100_000, b"\xff{}", b"1" * 5000, b"", b"[]", b'{"a": ' * 100_000, b"\0"]
)
def test_json_that_is_no_object_is_one_short_line(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(content)
    with pytest.raises(FolderError) as raised:
        read_json_object(tmp_path / "a.json")
    assert len(str(raised.value)) < 500 + len(str(tmp_path))
    assert "a.json" in str(raised.value)


def test_a_file_is_replaced_only_when_it_is_complete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a"
    write_file(path, "old")
    path.chmod(0o640)

    def fail(handle: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", fail)
        with pytest.raises(OSError, match="No space"):
            write_file(path, "new")
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["a"]
    write_file(path, b"new")
    assert path.read_text() == "new"
    assert path.stat().st_mode & 0o777 == 0o640


def test_writing_follows_links_and_does_not_replace_devices(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("old")
    (tmp_path / "link").symlink_to("a")
    write_file(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "a").read_text() == "new"
    write_file(Path("/dev/null"), "x")
    assert not Path("/dev/null").is_file()


def test_reading_errors_after_opening_are_folder_errors() -> None:
    with (
        pytest.raises(FolderError, match=r"Cannot read /proc/self/mem"),
        open_regular_file(Path("/proc/self/mem")) as f,
    ):
        f.read(1)
