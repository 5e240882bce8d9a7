from __future__ import annotations

from pathlib import Path

import pytest

from manyglot.errors import FolderError
from manyglot.folders import written_whole


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
