"""Split text into train, dev and test text without overlap.

The text is read three times, and memory grows only with the size of dev and test. The first pass samples candidate rows
at random. The second pass counts in how many rows the sentences of each candidate occur. Candidates whose sentences
occur nowhere else come first, because any training row that shares a sentence with dev or test is left out. The third
pass writes the files. Sentences are compared without case, punctuation and white space, and across languages.
"""

from __future__ import annotations

import hashlib
import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappush, heappushpop
from pathlib import Path
from typing import Any, NamedTuple

from manyglot.corpus.base import Row, Split
from manyglot.corpus.textfiles import write_aligned_rows
from manyglot.corpus.unsplit_text import RowGroup
from manyglot.corpus.zero_shot_sets import normalize_for_leak_check
from manyglot.errors import CorpusError
from manyglot.folders import atomic_folder
from manyglot.progress import ProgressReporter, progress_counter

CANDIDATES_PER_ROW, EXTRA_CANDIDATES = 4, 1000
"""The number of candidates: N per row of dev and test, and some more, because not every candidate can be used."""


@dataclass(frozen=True)
class SplitStatistics:
    """How much text went into each split."""

    num_rows: dict[Split, int]
    num_sentences: dict[str, dict[Split, int]]
    """By language and split."""
    num_left_out: int
    """Rows left out of the training text because they share a sentence with dev or test."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for `--json`."""
        return {"num_rows": self.num_rows, "num_sentences": self.num_sentences, "num_left_out": self.num_left_out}


class _Candidate(NamedTuple):
    """A row that may become dev or test text. The smallest candidates are chosen."""

    priority: int
    """A pseudo-random number that depends on the seed and the text; equal for equal rows."""
    number: int
    """The position of the row in its group."""
    keys: frozenset[str]
    """The normalized sentences."""


class _RowChoice(NamedTuple):
    """The rows chosen for dev and test, by group and position, and all their normalized sentences."""

    split_by_row: list[dict[int, Split]]
    keys: frozenset[str]


def write_splits(
    folder: Path, groups: Sequence[RowGroup], num_dev: int, num_test: int, seed: int = 1
) -> SplitStatistics:
    """Write train.en, dev.en, test.en, train.de … with `num_dev` and `num_test` rows of each group."""
    if num_dev + num_test == 0:
        raise CorpusError("--dev and --test are both 0. Set one of them.")
    codes = sorted({code for group in groups for code in group.languages})
    with atomic_folder(folder) as unfinished, progress_counter("splitting", "rows read") as progress:
        choice = _choose_rows(groups, num_dev, num_test, seed, progress)
        assigned = _AssignedRows(groups, choice, progress)
        write_aligned_rows(unfinished, Split.TRAIN, codes, assigned.iter_train())
        for split in (split for split, num_rows in ((Split.DEV, num_dev), (Split.TEST, num_test)) if num_rows):
            write_aligned_rows(unfinished, split, codes, assigned.held_out[split])
        if not assigned.num_rows[Split.TRAIN]:
            raise CorpusError("No training text would be left. Lower --dev or --test.")
    splits = [split for split in Split if assigned.num_rows[split]]
    return SplitStatistics(
        {split: assigned.num_rows[split] for split in splits},
        {code: {split: assigned.num_sentences[code, split] for split in splits} for code in codes},
        assigned.num_left_out,
    )


class _AssignedRows:
    """The third pass: yields the training rows, and collects those of dev and test."""

    def __init__(self, groups: Sequence[RowGroup], choice: _RowChoice, progress: ProgressReporter) -> None:
        self._groups, self._choice, self._progress = groups, choice, progress
        self.held_out: dict[Split, list[Row]] = {Split.DEV: [], Split.TEST: []}
        self.num_rows: Counter[Split] = Counter()
        self.num_sentences: Counter[tuple[str, Split]] = Counter()
        self.num_left_out = 0

    def iter_train(self) -> Iterator[Row]:
        """Yield the training rows; afterwards, the other attributes are complete."""
        for group, split_by_row in zip(self._groups, self._choice.split_by_row, strict=True):
            for number, row in enumerate(_read(group, self._progress)):
                split = split_by_row.get(number, Split.TRAIN)
                if split != Split.TRAIN:
                    self.held_out[split].append(row)
                elif not row:
                    continue
                elif not self._choice.keys.isdisjoint(_sentence_keys(row)):
                    self.num_left_out += 1
                    continue
                self.num_rows[split] += 1
                self.num_sentences.update((code, split) for code in row)
                if split == Split.TRAIN:
                    yield row


def _choose_rows(
    groups: Sequence[RowGroup], num_dev: int, num_test: int, seed: int, progress: ProgressReporter
) -> _RowChoice:
    """Choose rows of each group such that no two of them share a sentence."""
    num_held_out, rng = num_dev + num_test, random.Random(seed)
    candidates = [_sample_candidates(group, num_held_out, seed, progress) for group in groups]
    num_rows_by_key = _count_rows_by_key(groups, {k for some in candidates for c in some for k in c.keys}, progress)
    keys: set[str] = set()
    split_by_row = []
    for group, some in zip(groups, candidates, strict=True):
        if not some:
            raise CorpusError(f"{group.name} has no rows with text in two or more languages. Check its files.")
        chosen: list[int] = []
        for candidate in sorted(some, key=lambda c: (sum(num_rows_by_key[key] - 1 for key in c.keys), c)):
            if len(chosen) < num_held_out and keys.isdisjoint(candidate.keys):
                keys |= candidate.keys
                chosen.append(candidate.number)
        if len(chosen) < num_held_out:
            raise CorpusError(
                f"{group.name} has only {len(chosen):,} rows in two or more languages that share no sentence, "
                f"but --dev and --test ask for {num_held_out:,}. Lower them."
            )
        rng.shuffle(chosen)  # otherwise dev would get the rows with the rarest sentences
        split_by_row.append({number: Split.DEV if i < num_dev else Split.TEST for i, number in enumerate(chosen)})
    return _RowChoice(split_by_row, frozenset(keys))


def _sample_candidates(group: RowGroup, num_held_out: int, seed: int, progress: ProgressReporter) -> list[_Candidate]:
    """Return a random sample of the distinct rows in two or more languages: those of lowest priority."""
    limit = CANDIDATES_PER_ROW * num_held_out + EXTRA_CANDIDATES
    heap: list[tuple[int, int, _Candidate]] = []  # the worst candidate first
    priorities: set[int] = set()
    for number, row in enumerate(_read(group, progress)):
        if len(row) < 2:
            continue
        keys = _sentence_keys(row)
        priority = _row_priority(row, keys, seed)
        if priority in priorities or (len(heap) == limit and priority > -heap[0][0]):
            continue
        priorities.add(priority)
        item = (-priority, -number, _Candidate(priority, number, frozenset(keys)))
        if len(heap) < limit:
            heappush(heap, item)
        else:
            priorities.discard(heappushpop(heap, item)[2].priority)
    return [candidate for *_, candidate in heap]


def _count_rows_by_key(
    groups: Sequence[RowGroup], candidate_keys: set[str], progress: ProgressReporter
) -> Mapping[str, int]:
    """Count the rows that contain each sentence of a candidate."""
    counts: Counter[str] = Counter()
    for group in groups:
        for row in _read(group, progress):
            counts.update(candidate_keys & _sentence_keys(row))
    return counts


def _read(group: RowGroup, progress: ProgressReporter) -> Iterator[Row]:
    for row in group.read_rows():
        progress.advance()
        yield row


def _sentence_keys(row: Row) -> set[str]:
    return {normalize_for_leak_check(text) for text in row.values()}


def _row_priority(row: Row, keys: set[str], seed: int) -> int:
    text = "\0".join([str(seed), *sorted(row), *sorted(keys)])
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest())
