from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from manyglot.checksums import FileSeal, find_altered_file, find_wrong_size, parse_seals, seal_files
from manyglot.errors import UnreadableFileError


def test_seals_reveal_every_change(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_text(f"{name} text")
    seals = parse_seals(seal_files(tmp_path, ["a", "b"]), ["a"])
    chunk_sizes: list[int] = []
    assert find_wrong_size(tmp_path, seals) is None
    assert find_altered_file(tmp_path, seals, chunk_sizes.append) is None
    assert chunk_sizes == [6, 6]
    (tmp_path / "b").write_text("B text")
    assert find_wrong_size(tmp_path, seals) is None
    assert find_altered_file(tmp_path, seals) == "b"
    (tmp_path / "b").write_text("longer text")
    assert find_wrong_size(tmp_path, seals) == "b"
    (tmp_path / "a").unlink()
    assert find_wrong_size(tmp_path, seals) == "a"


@pytest.mark.parametrize(
    "values",
    [None, [], {}, {"a": None}, {"a": {"size": 1}}, {"a": {"size": True, "sha256": "0" * 64}}, {"b": 1}]
    + [{"a": {"size": 1, "sha256": value}} for value in ("0" * 63, "G" * 64, 1, None)],
)
def test_incomplete_seals_are_refused(values: Any) -> None:
    with pytest.raises(ValueError, match="checksum"):
        parse_seals(values, ["a"])


def test_an_empty_file_has_a_seal(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    assert FileSeal.of(tmp_path / "a").size == 0


def test_a_file_that_the_system_cannot_read_is_not_taken_for_altered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").write_text("a text")
    seals = parse_seals(seal_files(tmp_path, ["a"]), ["a"])

    def failing_open(*_: object) -> int:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr("manyglot.files.os.open", failing_open)
    with pytest.raises(UnreadableFileError, match=r"Cannot read .*a: Input/output error\."):
        find_altered_file(tmp_path, seals)
