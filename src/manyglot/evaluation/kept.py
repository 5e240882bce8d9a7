"""Translations that are kept while an evaluation is under way, so that an interrupted one goes on.

A file holds what one process has translated, a direction in a line. Its first line says what outputs depend on: the
model, the search, and all sentences, since what is drawn at random depends on a sentence's place among them. What was
made from something else is not used, and a line that was cut off when the process was killed is no line.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any

from manyglot.corpus.languages import Direction
from manyglot.errors import FolderError

PATTERN = "translated-*.jsonl"


class Kept:
    """The files of one folder, and the one of them that this process writes."""

    def __init__(self, folder: Path, origin: Mapping[str, Any], rank: int = 0) -> None:
        self.folder, self.first_line = folder, json.dumps({"origin": origin}, sort_keys=True)
        self._name = f"translated-{digest([self.first_line])}"
        self.path = folder / f"{self._name}-{rank}.jsonl"

    def read(self) -> dict[Direction, list[str]]:
        """The outputs that are there already."""
        return {Direction(line["source"], line["target"]): line["outputs"] for line in self._lines()}

    def add(self, outputs: Mapping[Direction, list[str]]) -> None:
        """Write the outputs of some directions, all of them at once."""
        lines = "".join(
            json.dumps({**direction._asdict(), "outputs": texts}) + "\n" for direction, texts in outputs.items()
        )
        try:
            begun = self._is_begun()
            with self.path.open("ab" if begun else "wb") as file:
                file.write(b"\n" if begun else f"{self.first_line}\n".encode())  # after a line that was cut off, say
                file.write(lines.encode())
        except OSError as error:
            raise FolderError(f"Cannot write {self.path}: {error.strerror or error}.") from None

    def clear(self) -> None:
        """Delete all of them, when they are not needed any more."""
        for path in self.folder.glob(PATTERN):
            path.unlink()

    def _is_begun(self) -> bool:
        """Whether there is a file that says what it depends on; one that was cut off before that begins again."""
        if not self.path.exists():
            return False
        with self.path.open("rb") as file:
            return file.readline() == f"{self.first_line}\n".encode()

    def _lines(self) -> Iterator[dict[str, Any]]:
        for path in sorted(self.folder.glob(f"{self._name}-*.jsonl")):
            with path.open("rb") as file:
                if file.readline() == f"{self.first_line}\n".encode():
                    yield from filter(None, map(_parsed, file))


def _parsed(line: bytes) -> dict[str, Any] | None:
    """What a line says, unless it was cut off."""
    try:
        values: dict[str, Any] = json.loads(line)
    except ValueError:
        return None
    return values if isinstance(values, dict) and values.keys() >= {"source", "target", "outputs"} else None


def digest(things: Any) -> str:
    """Of anything that JSON can say."""
    return blake2b(json.dumps(things).encode(), digest_size=8).hexdigest()
