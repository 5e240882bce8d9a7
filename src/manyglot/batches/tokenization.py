"""Tokenize the text of a dataset in chunks, with one process per core.

The result of each chunk is a file of its own with a record of its seal, so an interrupted preparation resumes with the
missing and the damaged chunks.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from pathlib import Path

import numpy as np

from manyglot.batches.array_files import AnyInts, IntArray
from manyglot.batches.encoded_parts import EncodedText
from manyglot.batches.finished_steps import StepRecord
from manyglot.batches.token_store import TokenizedSentences
from manyglot.checksums import file_sha256
from manyglot.corpus.cleaning import MAX_DROPPED_EXAMPLES, CleaningSettings, find_clean_sentences
from manyglot.progress import progress_bar
from manyglot.vocabulary.loading import load_subword_model
from manyglot.vocabulary.subword_model import UNK, SubwordModel
from manyglot.vocabulary.word_counts import split_into_ranges
from manyglot.worker_processes import num_cores, run_in_workers

CHUNK_BYTES = 4 * 2**20
MIN_PARALLEL_BYTES = 8 * 2**20
"""Less text than this is tokenized in the current process, because starting others would take longer."""


@dataclass(frozen=True)
class TextChunk:
    """A range of lines in a text file, as byte offsets, and the file that receives their subwords."""

    text_file: Path
    start: int
    stop: int
    first_line: int
    subword_model_file: Path
    result_file: Path
    cleaning: CleaningSettings
    record: StepRecord
    encoded: EncodedText | None
    """Where lines that were tokenized before have their subwords."""


@dataclass(frozen=True)
class TokenizedChunk:
    """The result of a chunk."""

    sentences: TokenizedSentences
    """The sentences that cleaning kept; their rows are line numbers in the chunk, from 0."""
    num_lines: int
    dropped: Counter[str]
    """Number of dropped sentences, by reason."""
    dropped_examples: dict[str, list[str]]
    """Some dropped sentences, by reason."""
    kept_counts: Counter[str]
    """Number of kept sentences and of their words, subwords and unknown subwords."""


def split_into_chunks(
    text_file: Path,
    subword_model_file: Path,
    result_folder: Path,
    cleaning: CleaningSettings,
    encoded: EncodedText | None = None,
) -> Iterator[TextChunk]:
    """Split a file into chunks of about `CHUNK_BYTES` that end at line boundaries."""
    inputs = {"text": file_sha256(text_file), "subwords": file_sha256(subword_model_file)}
    first_line = 0
    for index, text in enumerate(split_into_ranges(text_file, CHUNK_BYTES)):
        result_file = result_folder / f"{text_file.name}.{index}.npz"
        chunk_inputs = {**inputs, "start": text.start, "stop": text.stop}
        record = StepRecord(result_file.with_suffix(".json"), result_folder, [result_file.name], chunk_inputs)
        yield TextChunk(
            text_file, text.start, text.stop, first_line, subword_model_file, result_file, cleaning, record, encoded
        )
        if encoded is not None:
            with text_file.open("rb") as file:
                file.seek(text.start)
                first_line += file.read(text.stop - text.start).count(b"\n")


def tokenize_missing_chunks(chunks: Iterable[TextChunk], name: str) -> None:
    """Tokenize the chunks that have no intact result; `name` labels the progress bar."""
    missing = [chunk for chunk in chunks if not chunk.record.is_finished()]
    for chunk in missing:
        chunk.record.restart()
    num_bytes = sum(chunk.stop - chunk.start for chunk in missing)
    num_workers = 1 if num_bytes < MIN_PARALLEL_BYTES else num_cores()
    with progress_bar(f"tokenizing {name}", total=len(missing)) as progress:
        for _ in run_in_workers(tokenize_chunk, missing, num_workers):
            progress.advance()


def tokenize_chunk(chunk: TextChunk) -> None:
    """Tokenize and clean one chunk, and write its result."""
    with chunk.text_file.open("rb") as file:
        file.seek(chunk.start)
        lines = file.read(chunk.stop - chunk.start).decode("utf-8").split("\n")[:-1]
    code = chunk.text_file.name.partition(".")[2]
    rows, sentences = [row for row, line in enumerate(lines) if line], [line for line in lines if line]
    lengths, tokens = _encode(sentences, rows, len(lines), code, chunk)
    is_kept, dropped_indices = find_clean_sentences(sentences, lengths, code, chunk.cleaning)
    kept = np.flatnonzero(is_kept).tolist()
    tokens = tokens[np.repeat(is_kept, lengths)]
    kept_counts = {
        "sentences": len(kept),
        "words": sum(len(sentences[i].split()) for i in kept),
        "subwords": len(tokens),
        "unknown": int((tokens == UNK).sum()),
    }
    dropped = {reason: len(dropped) for reason, dropped in dropped_indices.items()}
    examples = {reason: [sentences[i] for i in some[:MAX_DROPPED_EXAMPLES]] for reason, some in dropped_indices.items()}
    np.savez(
        chunk.result_file,
        rows=np.array(rows, dtype=np.uint32)[is_kept],
        lengths=lengths[is_kept].astype(np.uint32),
        tokens=tokens,
        num_lines=len(lines),
        statistics=np.array(json.dumps([dropped, examples, kept_counts])),
    )
    chunk.record.write()


def _encode(
    sentences: Sequence[str], rows: Sequence[int], num_lines: int, code: str, chunk: TextChunk
) -> tuple[IntArray, AnyInts]:
    """Return the number of subwords of each sentence and the subwords of all. Encode those not encoded before."""
    lengths, known_tokens = np.zeros(len(rows), dtype=np.int64), np.zeros(0, dtype=np.uint32)
    if chunk.encoded is not None:
        lengths_by_line, known_tokens = chunk.encoded.lookup(chunk.first_line, num_lines)
        lengths = lengths_by_line[list(rows)]
    is_known = lengths > 0
    missing = np.flatnonzero(~is_known)
    model = _load_subword_model(chunk.subword_model_file).for_language(code)
    encoded = model.encode([sentences[i] for i in missing.tolist()])
    lengths[missing] = np.fromiter(map(len, encoded), dtype=np.int64, count=len(encoded))
    new_tokens = np.fromiter(chain.from_iterable(encoded), dtype=np.uint32, count=int(lengths[missing].sum()))
    if not is_known.any():
        return lengths, new_tokens
    tokens = np.empty(int(lengths.sum()), dtype=np.uint32)
    is_known_token = np.repeat(is_known, lengths)
    tokens[is_known_token], tokens[~is_known_token] = known_tokens, new_tokens
    return lengths, tokens


def read_tokenized_chunk(chunk: TextChunk) -> TokenizedChunk:
    """Read the result that `tokenize_chunk` wrote."""
    with np.load(chunk.result_file, allow_pickle=False) as stored:
        sentences = TokenizedSentences(stored["rows"], stored["lengths"], stored["tokens"])
        dropped, examples, kept_counts = json.loads(str(stored["statistics"]))
        return TokenizedChunk(sentences, int(stored["num_lines"]), Counter(dropped), examples, Counter(kept_counts))


@lru_cache(maxsize=1)
def _load_subword_model(path: Path) -> SubwordModel:
    return load_subword_model(path)
