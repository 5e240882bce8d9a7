"""The translated sentences of an evaluation: in memory, and in its translations.jsonl."""

from __future__ import annotations

import hashlib
import json
import os
from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import overload

from manyglot.checksums import FileSeal
from manyglot.corpus.languages import Direction
from manyglot.errors import FolderError
from manyglot.evaluation.sentence_statistics import Array
from manyglot.files import open_regular_file, replacing_file

TRANSLATIONS_FILE = "translations.jsonl"
SentenceIndices = Mapping[Direction, Collection[int]]
"""Indices of test sentences, by direction."""


@dataclass(frozen=True)
class TranslationExample:
    """One translated sentence."""

    source: str
    target: str
    zero_shot: bool | None
    source_text: str
    output: str
    reference: str
    identified_language: str


@dataclass(frozen=True)
class DirectionExamples:
    """All translated sentences of a direction."""

    direction: Direction
    zero_shot: bool | None
    sources: Sequence[str]
    outputs: Sequence[str]
    references: Sequence[str]
    identified_languages_N: Array

    def __len__(self) -> int:
        return len(self.outputs)

    def __getitem__(self, index: int) -> TranslationExample:
        texts = self.sources[index], self.outputs[index], self.references[index]
        return TranslationExample(*self.direction, self.zero_shot, *texts, str(self.identified_languages_N[index]))

    def __iter__(self) -> Iterator[TranslationExample]:
        columns = (self.sources, self.outputs, self.references, self.identified_languages_N.tolist())
        for texts in zip(*columns, strict=True):
            yield TranslationExample(*self.direction, self.zero_shot, *texts)


class TranslationExamples(Sequence[TranslationExample]):
    """The translated sentences of all directions, one direction after another.

    There may be millions, so an example is created only when it is read.
    """

    def __init__(self, directions: Iterable[DirectionExamples]) -> None:
        self.directions = list(directions)
        self._ends = list(accumulate(map(len, self.directions)))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    @overload
    def __getitem__(self, index: int) -> TranslationExample: ...
    @overload
    def __getitem__(self, index: slice) -> list[TranslationExample]: ...
    def __getitem__(self, index: int | slice) -> TranslationExample | list[TranslationExample]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        i = range(len(self))[index]
        part = bisect_right(self._ends, i)
        return self.directions[part][i - self._ends[part] + len(self.directions[part])]

    def __iter__(self) -> Iterator[TranslationExample]:
        for part in self.directions:
            yield from part

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or len(self) != len(other):
            return False
        return all(ours == theirs for ours, theirs in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]


def select_examples_by_direction(
    examples: Iterable[TranslationExample], indices: SentenceIndices
) -> Iterator[TranslationExample]:
    """Yield the examples at the given indices of their direction."""
    if isinstance(examples, TranslationExamples):
        for part in examples.directions:
            yield from (part[index] for index in sorted(indices.get(part.direction, ())) if index < len(part))
        return
    num_seen: Counter[Direction] = Counter()
    for example in examples:
        direction = Direction(example.source, example.target)
        if num_seen[direction] in indices.get(direction, ()):
            yield example
        num_seen[direction] += 1


def write_examples(path: Path, examples: Iterable[TranslationExample]) -> None:
    """Write one JSON object per line. Lone surrogates become escapes, which JSON decodes to the same characters."""
    encode = json.JSONEncoder(ensure_ascii=False).encode
    with replacing_file(path) as unfinished, unfinished.open("wb") as file:
        for example in examples:
            file.write((encode(vars(example)) + "\n").encode("utf-8", "backslashreplace"))


def read_examples(
    folder: Path, indices: SentenceIndices, seals: Mapping[str, FileSeal]
) -> Iterator[TranslationExample]:
    """Read the examples at the given indices from a run's folder; none if it has no translations.jsonl.

    Each line starts with its direction, so other directions are skipped without parsing; there may be millions of
    lines. At the end, raises an error unless the file matches its seal.
    """
    path = folder / TRANSLATIONS_FILE
    if not path.exists():
        return
    wanted_by_prefix = {
        (json.dumps(d._asdict(), ensure_ascii=False)[:-1] + ",").encode(): wanted for d, wanted in indices.items()
    }
    prefix_lengths = {len(prefix) for prefix in wanted_by_prefix}
    num_seen: Counter[bytes] = Counter()
    digest, seal = hashlib.sha256(), seals.get(TRANSLATIONS_FILE)
    try:
        with open_regular_file(path) as file:
            if seal is None or os.fstat(file.fileno()).st_size != seal.size:
                raise ValueError("it has another size")
            for line in file:
                digest.update(line)
                prefix = next((line[:length] for length in prefix_lengths if line[:length] in wanted_by_prefix), b"")
                if num_seen[prefix] in wanted_by_prefix.get(prefix, ()):
                    yield TranslationExample(**json.loads(line))
                num_seen[prefix] += 1
        if digest.hexdigest() != seal.sha256:
            raise ValueError("it has another checksum")
    except (FolderError, ValueError, TypeError, RecursionError):
        raise FolderError(
            f"{path} is damaged, or has changed since the evaluation. Evaluate again, or delete it for a report "
            f"without sentences."
        ) from None
