from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from manyglot.errors import FolderError
from manyglot.files import (
    check_links,
    open_regular_file,
    read_json,
    read_json_object,
    read_small_file,
    read_text,
    write_file,
    write_json,
)


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


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"a": NaN}', "NaN is not a finite number"),
        ('{"a": -Infinity}', "-Infinity is not a finite number"),
        ('{"a": 1e999}', "1e999 is not a finite number"),
        ('{"a": %s}' % ("9" * 200), "a number has more than 100 digits"),
        ('{"a": 1, "b": {"c": 1, "c": 2}}', "'c' is given twice"),
        ('{"a": %s}' % ("[" * 200), "nested more than 100 levels deep"),
        ('{"a": "%s' % ("[" * 200), "Unterminated string"),
        ('{"a": 1} {}', "Extra data"),
    ],
)
def test_json_is_one_finite_value(content: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(content)
    with pytest.raises(FolderError, match=message):
        read_json_object(tmp_path / "a.json")


def test_json_within_the_limits_is_read(tmp_path: Path) -> None:
    value = {"text": "[" * 300 + '\\"', "nested": [[[{"a": [1.5, -7, None, True]}]]] * 50}
    write_json(tmp_path / "a.json", value)
    assert read_json_object(tmp_path / "a.json") == value


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_json_that_could_not_be_read_is_not_written(value: float, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(tmp_path / "a.json", {"a": value})
    assert not os.listdir(tmp_path)


def test_links_out_of_a_folder_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    (folder / "inner").mkdir(parents=True)
    for path in (folder / "own", folder / "inner" / "file", tmp_path / "other"):
        path.write_text("x")
    (folder / "link").symlink_to("own")
    (folder / "inner link").symlink_to(folder / "inner" / "file")
    (folder / "folder link").symlink_to(tmp_path)
    check_links(folder)
    for target in (tmp_path / "other", Path("/etc/passwd"), Path("../missing"), Path("/dev/zero")):
        (folder / "out").unlink(missing_ok=True)
        (folder / "out").symlink_to(target)
        with pytest.raises(FolderError, match=r"out is a link to .*, outside its folder"):
            check_links(folder)
        check_links(folder, ["own", "missing"])
    check_links(tmp_path)


def test_the_links_of_the_hugging_face_cache_are_allowed(tmp_path: Path) -> None:
    snapshot, blobs = tmp_path / "models--a--b" / "snapshots" / "0f1e", tmp_path / "models--a--b" / "blobs"
    snapshot.mkdir(parents=True)
    blobs.mkdir()
    (blobs / "1234").write_text("x")
    (snapshot / "config.yaml").symlink_to("../../blobs/1234")
    check_links(snapshot)
    (tmp_path / "local").mkdir()
    (tmp_path / "local" / "config.yaml").symlink_to(blobs / "1234")
    check_links(tmp_path / "local")
    (snapshot / "format.json").symlink_to("../../../1234")
    with pytest.raises(FolderError, match=r"format\.json is a link"):
        check_links(snapshot)


def test_a_folder_that_cannot_be_listed_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(FolderError, match="Cannot read"):
        check_links(tmp_path / "missing")
