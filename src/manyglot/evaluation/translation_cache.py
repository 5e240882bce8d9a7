"""Cache of the translations of an unfinished evaluation, so that an interrupted evaluation can resume.

Each process writes its own file. A line has the outputs of consecutive sentences of a direction. The header line holds
everything the outputs depend on: the model, the search, and all sentences, because sampling depends on a sentence's
position among them. Files with another header are ignored. Every line has a checksum, so a line that was truncated or
damaged is ignored too, and its sentences are translated again.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

from manyglot.corpus.languages import Direction
from manyglot.files import open_regular_file, report_unwritable

CACHE_FILE_PATTERN = "translated-*.jsonl"


class SentenceSpan(NamedTuple):
    """Consecutive sentences of a direction."""

    direction: Direction
    start: int
    """Index of the first sentence, from 0."""
    stop: int


class TranslationCache:
    """The cache files in a folder. Each process reads all of them and writes one."""

    def __init__(self, folder: Path, provenance: Mapping[str, Any], rank: int = 0) -> None:
        self.folder, self.header_line = folder, json.dumps({"provenance": provenance}, sort_keys=True)
        self._file_stem = f"translated-{json_digest([self.header_line])}"
        self.path = folder / f"{self._file_stem}-{rank}.jsonl"

    def read(self) -> dict[Direction, dict[int, str]]:
        """Return the cached outputs of each direction by the index of their sentence."""
        outputs: dict[Direction, dict[int, str]] = defaultdict(dict)
        for record in self._cached_records():
            direction = Direction(record["source"], record["target"])
            outputs[direction].update(enumerate(record["outputs"], start=record["start"]))
        return dict(outputs)

    def add(self, outputs: Mapping[SentenceSpan, Sequence[str]]) -> None:
        """Append the outputs of some spans."""
        lines = "".join(_format_record(span, texts) for span, texts in outputs.items())
        has_header = self._has_header()
        with report_unwritable(self.path), self.path.open("ab" if has_header else "wb") as file:
            file.write(b"\n" if has_header else f"{self.header_line}\n".encode())  # the last line may be truncated
            file.write(lines.encode())

    def clear(self) -> None:
        """Delete all cache files in the folder, including those of other models and searches."""
        for path in self.folder.glob(CACHE_FILE_PATTERN):
            path.unlink()

    def _has_header(self) -> bool:
        """Whether this process's file exists with the right header; a truncated header is overwritten."""
        if not self.path.exists():
            return False
        with open_regular_file(self.path) as file:
            return file.readline() == f"{self.header_line}\n".encode()

    def _cached_records(self) -> Iterator[dict[str, Any]]:
        for path in sorted(self.folder.glob(f"{self._file_stem}-*.jsonl")):
            with open_regular_file(path) as file:
                if file.readline() == f"{self.header_line}\n".encode():
                    yield from filter(None, map(_parse_record, file))


def _format_record(span: SentenceSpan, texts: Sequence[str]) -> str:
    record = {**span.direction._asdict(), "start": span.start, "outputs": texts}
    return json.dumps({**record, "digest": json_digest(record)}) + "\n"


def _parse_record(line: bytes) -> dict[str, Any] | None:
    """Parse a line; return None if it is truncated or damaged."""
    try:
        record = json.loads(line)
        digest = record.pop("digest")
    except (ValueError, RecursionError, AttributeError, TypeError, KeyError):
        return None
    return record if digest == json_digest(record) else None


def json_digest(value: Any) -> str:
    """Return a short hash of a value that JSON can represent."""
    return blake2b(json.dumps(value).encode(), digest_size=8).hexdigest()
