"""Where the translations and metric scores of another system come from: their files, checksum and date."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from manyglot.checksums import file_sha256
from manyglot.corpus.languages import Direction
from manyglot.errors import FolderError


@dataclass(frozen=True)
class FileOrigin:
    """A file, or a folder of files, that was read; or the engine that has made translations."""

    path: str
    """The path, or the command of an engine."""
    sha256: str
    """The checksum of the file; for several files, the checksum of their names and checksums."""
    modified: str
    """Modification time of the newest file in UTC, such as 2025-01-31T12:00:00Z."""

    @classmethod
    def of(cls, path: Path, files: Iterable[Path]) -> FileOrigin:
        """Describe the files that were read from a path."""
        files = sorted(files)
        try:
            newest = datetime.fromtimestamp(max(file.stat().st_mtime for file in files), UTC)
        except OSError as error:
            raise FolderError(f"Cannot read {path}: {error.strerror}.") from None
        checksums = {file: file_sha256(file) for file in files}
        names = "".join(f"{checksums[file]}  {file.relative_to(path)}\n" for file in files if file != path)
        sha256 = hashlib.sha256(names.encode("utf-8", "surrogateescape")).hexdigest() if names else checksums[path]
        return cls(str(path), sha256, newest.strftime("%Y-%m-%dT%H:%M:%SZ"))

    @classmethod
    def of_engine(cls, description: str, outputs: Mapping[Direction, Sequence[str]]) -> FileOrigin:
        """Describe translations that an engine has just made, by its command or folder."""
        texts = json.dumps([[*direction, *lines] for direction, lines in outputs.items()])
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        return cls(description, hashlib.sha256(texts.encode()).hexdigest(), now)

    def describe(self) -> str:
        """Return path, date and the beginning of the checksum in one line."""
        return f"{self.path}, {self.modified[:10]}, sha256 {self.sha256[:12]}"


@dataclass(frozen=True)
class ScoredSystem:
    """A system whose translations were made elsewhere."""

    name: str
    hypotheses: FileOrigin


@dataclass(frozen=True)
class SegmentMetric:
    """A metric whose sentence scores were computed elsewhere, such as COMET."""

    lower_is_better: bool
    scores: FileOrigin
