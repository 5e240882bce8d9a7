from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from manyglot.errors import FolderError
from manyglot.folders import atomic_folder, locked_folder, resumable_folder


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
    imports = "import pathlib, time\nfrom manyglot.folders import locked_folder"
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


def test_a_lock_on_a_deleted_folder_is_not_taken_for_a_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between opening and locking, the previous holder deletes the folder and a third process creates it again."""
    folder, flock, calls = tmp_path / "data", fcntl.flock, []

    def replaced_before_locking(handle: int, operation: int) -> None:
        calls.append(handle)
        if len(calls) == 1:
            folder.rmdir()
            (tmp_path / "so that the inode is not reused").mkdir()
            folder.mkdir()
        flock(handle, operation)

    monkeypatch.setattr("manyglot.folders.fcntl.flock", replaced_before_locking)
    with locked_folder(folder):
        third = os.open(folder, os.O_RDONLY)
        with pytest.raises(BlockingIOError):
            flock(third, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.close(third)
    assert len(calls) == 2


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError(5, "Input/output error")])
def test_an_error_right_after_the_renaming_does_not_delete_the_folder_of_another_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    other = tmp_path / "data.unfinished" / "of another process"

    def fail_after_renaming(path: Path) -> None:
        if (tmp_path / "data").exists():
            other.mkdir(parents=True)
            raise error

    monkeypatch.setattr("manyglot.folders.fsync_path", fail_after_renaming)
    with pytest.raises((KeyboardInterrupt, FolderError)), atomic_folder(tmp_path / "data") as unfinished:
        (unfinished / "a").touch()
    assert names(tmp_path / "data") == ["a"]
    assert other.exists()


def test_a_new_folder_and_its_parents_are_durable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flushed: list[Path] = []
    monkeypatch.setattr("manyglot.folders.fsync_path", flushed.append)
    with locked_folder(tmp_path / "run" / "checkpoints"):
        assert flushed == [tmp_path, tmp_path / "run"]


def test_an_existing_folder_leaves_no_unfinished_one(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "precious").touch()
    with pytest.raises(FolderError, match="already exists"), resumable_folder(tmp_path / "data", {}):
        pass
    assert names(tmp_path) == ["data"]


def test_processes_that_write_the_same_folder_do_not_disturb_each_other(tmp_path: Path) -> None:
    """Every folder that appears holds the files of exactly one process."""
    code = """
import pathlib, shutil, sys
from manyglot.errors import FolderError
from manyglot.folders import atomic_folder
folder, me = pathlib.Path(sys.argv[1]), sys.argv[2]
written = 0
while written < 150:
    try:
        with atomic_folder(folder) as unfinished:
            for name in "abc":
                (unfinished / name).write_text(me)
            assert {path.read_text() for path in unfinished.iterdir()} == {me}
            assert len(list(unfinished.iterdir())) == 3
    except FolderError as error:
        assert "already exists" in str(error) or "Another process" in str(error), error
    else:
        written += 1
        names = sorted(path.name for path in folder.iterdir())
        assert names == ["a", "b", "c"], names
        shutil.rmtree(folder.rename(folder.with_name("done-" + me)))
"""
    arguments = [sys.executable, "-c", code, str(tmp_path / "data")]
    processes = [subprocess.Popen([*arguments, me], stderr=subprocess.PIPE, text=True) for me in "123"]
    for process in processes:
        assert process.communicate(timeout=120)[1] == ""
    assert names(tmp_path) == []


def test_a_resumed_folder_writes_through_no_link(tmp_path: Path) -> None:
    (tmp_path / "outside").write_text("precious")
    (tmp_path / "data.unfinished").mkdir()
    for name in ("origin.json", "cache"):
        (tmp_path / "data.unfinished" / name).symlink_to(tmp_path / "outside")
    with resumable_folder(tmp_path / "data", {}) as unfinished, (unfinished / "cache").open("a") as file:
        file.write("new")
    assert (tmp_path / "outside").read_text() == "precious"
    assert (tmp_path / "data" / "cache").read_text() == "new"
