"""Records of the finished steps of a preparation, so that an interrupted one resumes.

A step writes its files and then a record with its inputs, its result and the seals of its files. A resumed preparation
reuses the files if they match the record and the inputs are the same. Otherwise it repeats the step, so a damaged file
is written again and never used.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from manyglot.checksums import find_altered_file, parse_seals, seal_files
from manyglot.errors import FolderError
from manyglot.sealed_json import read_sealed_json, write_sealed_json

RECORD_KIND = "finished step"


@dataclass(frozen=True)
class StepRecord:
    """The record of a step that writes files into a folder."""

    path: Path
    folder: Path
    files: Sequence[str]
    """Names of the files in the folder."""
    inputs: Mapping[str, Any]
    """What the files depend on, as JSON values."""

    def restart(self) -> None:
        """Delete the record and all files of an earlier attempt, whatever has become of them."""
        for path in (self.path, *(self.folder / name for name in self.files)):
            delete(path)

    def write(self, result: Any = None) -> None:
        """Record that the step is finished; the result is a JSON value."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        seals = seal_files(self.folder, self.files)
        write_sealed_json(self.path, RECORD_KIND, {"inputs": self.inputs, "files": seals, "result": result})

    def is_finished(self) -> bool:
        """Whether the step is finished and its files are intact."""
        try:
            values = read_sealed_json(self.path, RECORD_KIND)
            return values["inputs"] == self.inputs and not find_altered_file(
                self.folder, parse_seals(values["files"], self.files)
            )
        except (FolderError, KeyError, ValueError):
            return False

    def read_result(self) -> Any:
        """Return the result of the finished step."""
        return read_sealed_json(self.path, RECORD_KIND)["result"]


def delete(path: Path) -> None:
    """Delete a file, a link, a pipe or a folder, if it exists."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
