from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from manyglot.errors import FolderError
from manyglot.files import continued, held, written_whole


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_folder_appears_when_it_is_whole(tmp_path: Path) -> None:
    with written_whole(tmp_path / "deep" / "data") as unfinished:
        (unfinished / "a").write_text("x")
        assert not (tmp_path / "deep" / "data").exists()
    assert names(tmp_path / "deep" / "data") == ["a"]
    assert names(tmp_path / "deep") == ["data"]


def test_a_failure_leaves_nothing_behind(tmp_path: Path) -> None:
    def fail() -> None:
        with written_whole(tmp_path / "data") as unfinished:
            (unfinished / "a").touch()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert names(tmp_path) == []


def test_leftovers_of_a_killed_program_are_cleared(tmp_path: Path) -> None:
    (tmp_path / "data.unfinished").mkdir()
    (tmp_path / "data.unfinished" / "stale").write_text("x")
    with written_whole(tmp_path / "data"):
        pass
    assert names(tmp_path / "data") == []


def test_two_processes_do_not_write_the_same_folder(tmp_path: Path) -> None:
    with (
        continued(tmp_path / "data", {}) as unfinished,
        pytest.raises(FolderError, match=r"Another process is writing .*data\.unfinished"),
        continued(tmp_path / "data", {"other": 1}),
    ):
        pass
    assert names(tmp_path) == ["data"], "the first was not disturbed"
    assert not unfinished.exists()


def test_a_folder_is_let_go_when_its_process_is_killed(tmp_path: Path) -> None:
    hold = f"import pathlib, time\nfrom manyglot.files import held\nwith held(pathlib.Path({str(tmp_path)!r})):"
    other = subprocess.Popen(
        [sys.executable, "-c", f"{hold}\n  print('held', flush=True)\n  time.sleep(60)"], stdout=subprocess.PIPE
    )
    assert other.stdout is not None
    other.stdout.readline()
    with pytest.raises(FolderError, match="Another process"), held(tmp_path):
        pass
    other.kill()
    other.communicate()
    with held(tmp_path):
        pass


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "precious").write_text("x")
    with pytest.raises(FolderError, match="exists"), written_whole(tmp_path / "data"):
        pass
    assert names(tmp_path / "data") == ["precious"]


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with (
        pytest.raises(FolderError, match=r"Cannot write .*file/data: Not a directory\."),
        written_whole(tmp_path / "file" / "data"),
    ):
        pass
