"""Tokenising the text of a dataset, a chunk of a file at a time, in as many processes as there are cores.

A chunk's result is a file of its own, written whole, so that an interrupted preparation goes on with the chunks that
are not done.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from manyglot.batches.store import Part
from manyglot.corpus.cleaning import SHOWN, CleaningSettings, keep_sentences
from manyglot.progress import bar
from manyglot.vocabulary.subwords import UNK, Subwords

CHUNK_BYTES = 4 * 2**20
ALONE_BELOW = 8 * 2**20
"""Text of fewer bytes is tokenised by this process: starting others would take longer."""


@dataclass(frozen=True)
class Chunk:
    """Some lines of a file, and where their subwords go."""

    text: Path
    start: int
    stop: int
    model: Path
    result: Path
    cleaning: CleaningSettings


@dataclass(frozen=True)
class Encoded:
    """The result of a chunk: sentences by their line in the chunk."""

    part: Part
    num_lines: int
    dropped: Counter[str]
    """Sentences left out, by reason."""
    examples: dict[str, list[str]]
    """Some of them."""
    counts: Counter[str]
    """Sentences, words, subwords and unknown subwords that were kept."""


def chunks_of(text: Path, model: Path, results: Path, cleaning: CleaningSettings) -> Iterator[Chunk]:
    """Cut a file at ends of lines, about `CHUNK_BYTES` apart."""
    size, start, number = text.stat().st_size, 0, 0
    with text.open("rb") as file:
        while start < size:
            file.seek(min(start + CHUNK_BYTES, size))
            file.readline()
            stop = min(file.tell(), size)
            yield Chunk(text, start, stop, model, results / f"{text.name}.{number}.npz", cleaning)
            start, number = stop, number + 1


def encode_all(chunks: Iterable[Chunk], name: str) -> None:
    """Tokenise the chunks that have no result yet."""
    missing = [chunk for chunk in chunks if not chunk.result.exists()]
    alone = sum(chunk.stop - chunk.start for chunk in missing) < ALONE_BELOW
    with bar(f"tokenising {name}", total=len(missing)) as progress:
        if alone:
            for chunk in missing:
                encode(chunk)
                progress.advance()
            return
        with ProcessPoolExecutor(len(os.sched_getaffinity(0)), get_context("spawn")) as pool:
            for done in as_completed([pool.submit(encode, chunk) for chunk in missing]):
                done.result()
                progress.advance()


def encode(chunk: Chunk) -> None:
    """Tokenise and clean one chunk, and write its result."""
    with chunk.text.open("rb") as file:
        file.seek(chunk.start)
        lines = file.read(chunk.stop - chunk.start).decode("utf-8").split("\n")[:-1]
    subwords = _subwords(chunk.model).encode(lines)
    lengths = np.fromiter(map(len, subwords), dtype=np.int64, count=len(subwords))
    code = chunk.text.name.partition(".")[2]
    kept, dropped = keep_sentences(lines, lengths, code, chunk.cleaning)
    rows = np.flatnonzero(kept)
    num_tokens = int(lengths[kept].sum())
    tokens = np.fromiter(
        chain.from_iterable(subwords if len(rows) == len(subwords) else (subwords[i] for i in rows)),
        dtype=np.uint32,
        count=num_tokens,
    )
    counts = {
        "sentences": len(rows),
        "words": sum(len(lines[i].split()) for i in rows),
        "subwords": num_tokens,
        "unknown": int((tokens == UNK).sum()),
    }
    left_out = {reason: len(numbers) for reason, numbers in dropped.items()}
    examples = {reason: [lines[i] for i in numbers[:SHOWN]] for reason, numbers in dropped.items()}
    unfinished = chunk.result.with_suffix(".unfinished.npz")
    np.savez(
        unfinished,
        rows=rows.astype(np.uint32),
        lengths=lengths[kept].astype(np.uint32),
        tokens=tokens,
        num_lines=len(lines),
        notes=np.array(json.dumps([left_out, examples, counts])),
    )
    unfinished.replace(chunk.result)


def read_result(chunk: Chunk) -> Encoded:
    """What `encode` wrote."""
    with np.load(chunk.result, allow_pickle=False) as stored:
        part = Part(stored["rows"], stored["lengths"], stored["tokens"])
        left_out, examples, counts = json.loads(str(stored["notes"]))
        return Encoded(part, int(stored["num_lines"]), Counter(left_out), examples, Counter(counts))


@lru_cache(maxsize=1)
def _subwords(model: Path) -> Subwords:
    return Subwords.load(model)
