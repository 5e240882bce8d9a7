from __future__ import annotations

import pytest

from tests.faults.durability import find_unflushed_files
from tests.faults.file_operations import FileOperation

CREATED = FileOperation("openat", "data.unfinished/file")
WRITTEN = FileOperation("write", "data.unfinished/file")
FLUSHED = FileOperation("fsync", "data.unfinished/file")
RENAMED = FileOperation("rename", "data", "data.unfinished")
PARENT_FLUSHED = FileOperation("fsync", ".")
LOGGED = FileOperation("write", "log.jsonl")
LOG_FLUSHED = FileOperation("fsync", "log.jsonl")


@pytest.mark.parametrize(
    ("operations", "expected"),
    [
        ([CREATED, WRITTEN, FLUSHED, RENAMED, PARENT_FLUSHED], []),
        ([CREATED, WRITTEN, RENAMED, PARENT_FLUSHED], ["data/file is not flushed when data appears"]),
        ([WRITTEN, FLUSHED, WRITTEN, RENAMED, PARENT_FLUSHED], ["data/file is not flushed when data appears"]),
        ([WRITTEN, FLUSHED, RENAMED], [". is not flushed at the end"]),
        ([LOGGED, WRITTEN, FLUSHED, RENAMED, PARENT_FLUSHED], ["log.jsonl is not flushed when data appears"]),
        ([LOGGED, LOG_FLUSHED, WRITTEN, FLUSHED, RENAMED, PARENT_FLUSHED], []),
        ([LOGGED], ["log.jsonl is not flushed at the end"]),
        ([WRITTEN], []),
    ],
)
def test_files_that_a_power_failure_would_lose_are_found(operations: list[FileOperation], expected: list[str]) -> None:
    assert list(find_unflushed_files(operations)) == expected
