from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from manyglot.errors import FolderError
from manyglot.files import atomic_folder, locked_folder, resumable_folder


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_folder_appears_when_it_is_complete(tmp_path: Path) -> None:
    with atomic_folder(tmp_path / "deep" / "data") as unfinished:
        (unfinished / "a").write_text("x")
        assert not (tmp_path / "deep" / "data").exists()
    assert names(tmp_path / "deep" / "data") == ["a"]
    assert names(tmp_path / "deep") == ["data"]


def test_a_failure_leaves_nothing_behind(tmp_path: Path) -> None:
    def fail() -> None:
        with atomic_folder(tmp_path / "data") as unfinished:
            (unfinished / "a").touch()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert names(tmp_path) == []


def test_remains_of_a_killed_process_are_deleted(tmp_path: Path) -> None:
    (tmp_path / "data.unfinished").mkdir()
    (tmp_path / "data.unfinished" / "stale").write_text("x")
    with atomic_folder(tmp_path / "data"):
        pass
    assert names(tmp_path / "data") == []


def test_two_processes_do_not_write_the_same_folder(tmp_path: Path) -> None:
    with (
        resumable_folder(tmp_path / "data", {}) as unfinished,
        pytest.raises(FolderError, match=r"Another process is writing .*data\.unfinished"),
        resumable_folder(tmp_path / "data", {"other": 1}),
    ):
        pass
    assert names(tmp_path) == ["data"], "the first was not disturbed"
    assert not unfinished.exists()


def test_the_lock_is_released_when_its_process_is_killed(tmp_path: Path) -> None:
    imports = "import pathlib, time\nfrom manyglot.files import locked_folder"
    hold = f"{imports}\nwith locked_folder(pathlib.Path({str(tmp_path)!r})):"
    other = subprocess.Popen(
        [sys.executable, "-c", f"{hold}\n  print('held', flush=True)\n  time.sleep(60)"], stdout=subprocess.PIPE
    )
    assert other.stdout is not None
    other.stdout.readline()
    with pytest.raises(FolderError, match="Another process"), locked_folder(tmp_path):
        pass
    other.kill()
    other.communicate()
    with locked_folder(tmp_path):
        pass


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "precious").write_text("x")
    with pytest.raises(FolderError, match="exists"), atomic_folder(tmp_path / "data"):
        pass
    assert names(tmp_path / "data") == ["precious"]


def test_an_unwritable_path_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with (
        pytest.raises(FolderError, match=r"Cannot write .*file/data: Not a directory\."),
        atomic_folder(tmp_path / "file" / "data"),
    ):
        pass
