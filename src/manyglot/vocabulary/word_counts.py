"""Count the words of text on all cores. A subword model trained on the counts equals one trained on the text.

BPE never merges across spaces, so SentencePiece itself first reduces its text to the counts of its words. Counting is
most of the work, and only the counting can be distributed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from manyglot.corpus.textfiles import read_lines
from manyglot.files import open_regular_file
from manyglot.progress import progress_counter
from manyglot.worker_processes import num_cores, run_in_workers

CHUNK_BYTES = 2**24
MIN_PARALLEL_BYTES = 2**23
"""The words of less text are counted in the current process, because starting others would take longer."""
SAMPLING_TEMPERATURE = 5.0
MAX_SENTENCE_BYTES = 65_536
"""Longer sentences are not used."""
_SPACE_SYMBOL, _UNKNOWN_SYMBOL = "\u2581", "\u2585"
"""Characters with a meaning in SentencePiece: it writes spaces as the first, and skips sentences with the second."""


@dataclass(frozen=True)
class TextRange:
    """A range of lines in a text file, as byte offsets."""

    path: Path
    start: int
    stop: int


@dataclass(frozen=True)
class TextSample:
    """Some sentences of a text file, evenly spaced."""

    path: Path
    num_sentences: int
    num_wanted: int


def split_into_ranges(path: Path, num_bytes: int = CHUNK_BYTES) -> list[TextRange]:
    """Split a file into ranges of about `num_bytes` that end at line boundaries."""
    ranges, start, size = [], 0, path.stat().st_size
    with open_regular_file(path) as file:
        while start < size:
            file.seek(min(start + num_bytes, size))
            file.readline()
            stop = min(file.tell(), size)
            ranges.append(TextRange(path, start, stop))
            start = stop
    return ranges


def count_words(sentences: Iterable[str]) -> Counter[str]:
    """Count the words of sentences as SentencePiece does. A sentence with its symbol for spaces counts as one word."""
    counts: Counter[str] = Counter()
    for sentence in sentences:
        if not sentence or _UNKNOWN_SYMBOL in sentence:
            continue
        if len(sentence) > MAX_SENTENCE_BYTES // 4 and len(sentence.encode()) > MAX_SENTENCE_BYTES:
            continue
        text = sentence.replace("\t", "\0")  # SentencePiece ignores both characters, but words end before a tab
        if _SPACE_SYMBOL in text:
            counts[text] += 1
        else:
            counts.update(text.split(" "))
    del counts[""]
    return counts


def count_words_of_range(text: TextRange) -> Counter[str]:
    """Count the words of a range of lines."""
    with open_regular_file(text.path) as file:
        file.seek(text.start)
        return count_words(file.read(text.stop - text.start).decode("utf-8").split("\n"))


def count_words_of_sample(sample: TextSample) -> Counter[str]:
    """Count the words of a sample."""
    return count_words(sample_evenly(read_lines(sample.path), sample.num_sentences, sample.num_wanted))


def sample_evenly(lines: Iterable[str], num_lines: int, num_wanted: int) -> Iterator[str]:
    """Yield `num_wanted` evenly spaced lines of the `num_lines` that are not empty."""
    sentences = (line for line in lines if line)
    return (line for i, line in enumerate(sentences) if (i + 1) * num_wanted // num_lines > i * num_wanted // num_lines)


def count_sentences(path: Path) -> int:
    """Count the lines that are not empty."""
    return sum(map(bool, read_lines(path)))


def count_words_of_files(paths: Sequence[Path]) -> Counter[str]:
    """Count the words of all sentences of some files with a newline after every line."""
    ranges = [each for path in paths for each in split_into_ranges(path)]
    counts: Counter[str] = Counter()
    results = run_in_workers(count_words_of_range, ranges, _num_workers(paths))
    with progress_counter("counting words", "MB", sum(path.stat().st_size for path in paths) // 10**6) as progress:
        done = 0
        for each, range_counts in zip(ranges, results, strict=True):
            counts.update(range_counts)
            progress.advance((done + each.stop - each.start) // 10**6 - done // 10**6)
            done += each.stop - each.start
    return counts


def count_words_of_samples(paths: Sequence[Path], num_wanted: int) -> Counter[str]:
    """Count the words of about `num_wanted` sentences, sampled by file in proportion to size^(1/temperature)."""
    num_workers = _num_workers(paths)
    sizes = np.array(list(run_in_workers(count_sentences, paths, num_workers)))
    shares = (sizes / sizes.max()) ** (1 / SAMPLING_TEMPERATURE)
    num_by_file = np.minimum(np.ceil(shares / shares.sum() * num_wanted), sizes).astype(np.int64)
    samples = [TextSample(*each) for each in zip(paths, sizes.tolist(), num_by_file.tolist(), strict=True)]
    counts: Counter[str] = Counter()
    with progress_counter("counting words of a sample", "files", len(paths)) as progress:
        for sample_counts in run_in_workers(count_words_of_sample, samples, num_workers):
            counts.update(sample_counts)
            progress.advance()
    return counts


def _num_workers(paths: Sequence[Path]) -> int:
    return num_cores() if sum(path.stat().st_size for path in paths) >= MIN_PARALLEL_BYTES else 1
