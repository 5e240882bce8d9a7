"""Write a split of a corpus as line-aligned files, on all cores.

Most corpora are line-aligned files already. Then this process only cuts them into blocks of the same rows, and workers
check and normalize the blocks. A block that is not plain text, such as one that is not UTF-8, is left to the reader of
rows, which explains the error. Rows from other readers, such as tables, are read in this process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import BinaryIO

import numpy as np

from manyglot.corpus.base import AlignedCorpus, AlignedFiles, Corpus, Row, Split
from manyglot.corpus.copied_text import CopiedTextCounter
from manyglot.corpus.decompression import COMPRESSED_SUFFIXES
from manyglot.corpus.textfiles import MAX_LINE_BYTES, read_aligned_rows, to_single_line
from manyglot.corpus.zip_archives import TextSource, read_source_blocks
from manyglot.progress import progress_counter
from manyglot.worker_processes import run_in_workers

ROWS_PER_BLOCK = 2**13
MAX_BLOCK_BYTES = 2**26
"""A file with more bytes in the rows of one block is left to the reader of rows, which needs less memory."""
MIN_PARALLEL_BYTES = 2**23
"""Less text than this is read in the current process, because starting others would take longer."""
NEWLINE = ord("\n")


@dataclass(frozen=True)
class LineBlock:
    """The same lines of several files. Files in which all these lines are empty are left out."""

    text_by_language: Mapping[str, bytes]
    num_lines: int
    is_first: bool
    """Whether these are the first lines of the files."""


@dataclass(frozen=True)
class RowBlock:
    """Consecutive rows as text with one line per row. Languages without a sentence in these rows are left out."""

    text_by_language: Mapping[str, bytes]
    num_rows: int
    copies: CopiedTextCounter


def write_aligned_text(folder: Path, corpus: Corpus, split: Split) -> tuple[int, CopiedTextCounter]:
    """Write `split.code` files with an empty line for a missing sentence.

    Return the number of rows, and the text that two languages have in common.
    """
    folder.mkdir(parents=True, exist_ok=True)
    num_rows, copies = 0, CopiedTextCounter()
    with ExitStack() as stack:
        files = {code: stack.enter_context((folder / f"{split}.{code}").open("wb")) for code in corpus.languages}
        for block in _read_row_blocks(corpus, split):
            _write_block(files, block)
            num_rows += block.num_rows
            copies.add(block.copies)
    return num_rows, copies


def _write_block(files: Mapping[str, BinaryIO], block: RowBlock) -> None:
    no_sentences = b"\n" * block.num_rows
    for code, file in files.items():
        file.write(block.text_by_language.get(code, no_sentences))


def _read_row_blocks(corpus: Corpus, split: Split) -> Iterator[RowBlock]:
    groups = corpus.aligned_files(split) if isinstance(corpus, AlignedCorpus) else None
    if groups is None:
        yield from _read_rows(corpus.rows(split), split)
        return
    sources = [source for files in groups for source in files.values()]
    if sum(map(_stored_bytes, sources)) < MIN_PARALLEL_BYTES:
        yield from _read_rows(corpus.rows(split), split)
        return
    is_compressed = any(not isinstance(s, Path) or s.suffix in COMPRESSED_SUFFIXES for s in sources)
    num_megabytes = None if is_compressed else sum(map(_stored_bytes, sources)) // 10**6
    with progress_counter(f"reading {split} text", "MB", num_megabytes) as progress:
        num_bytes = 0

        def count_bytes(amount: int) -> None:
            nonlocal num_bytes
            progress.advance((num_bytes + amount) // 10**6 - num_bytes // 10**6)
            num_bytes += amount

        yield from _read_aligned_groups(groups, count_bytes)


def _read_rows(rows: Iterable[Row], split: Split) -> Iterator[RowBlock]:
    """Read rows in this process."""
    remaining = iter(rows)
    with progress_counter(f"reading {split} text", "rows") as progress:
        while block := list(islice(remaining, ROWS_PER_BLOCK)):
            yield encode_rows([{code: to_single_line(text) for code, text in row.items()} for row in block])
            progress.advance(len(block))


def _read_aligned_groups(groups: Sequence[AlignedFiles], count_bytes: Callable[[int], None]) -> Iterator[RowBlock]:
    """Read the blocks of all groups of files in workers. From a defect on, a group is read row by row."""
    group_of_block: list[int] = []
    num_rows_read = [0] * len(groups)
    skipped_group = -1

    def number_blocks() -> Iterator[LineBlock | None]:
        for group, files in enumerate(groups):
            for block in cut_into_blocks(files, count_bytes):
                group_of_block.append(group)
                yield block

    for number, result in enumerate(run_in_workers(parse_block, number_blocks())):
        group = group_of_block[number]
        if group == skipped_group:
            continue
        if result is None:
            skipped_group = group
            for rows in _batches(islice(read_aligned_rows(groups[group]), num_rows_read[group], None)):
                yield encode_rows(rows)
            continue
        num_rows_read[group] += result.num_rows
        yield result


def _batches(rows: Iterator[Row]) -> Iterator[list[Row]]:
    while batch := list(islice(rows, ROWS_PER_BLOCK)):
        yield batch


def cut_into_blocks(files: AlignedFiles, count_bytes: Callable[[int], None]) -> Iterator[LineBlock | None]:
    """Cut line-aligned files into blocks of the same lines. None stands for the rest of files that are not aligned."""
    is_first = True
    for texts in zip_longest(*(_cut_lines(read_source_blocks(source)) for source in files.values())):
        text_by_language = {code: text for code, text in zip(files, texts, strict=True) if text is not None}
        line_counts = {text.count(b"\n") for text in text_by_language.values()}
        if len(text_by_language) < len(files) or len(line_counts) != 1:
            yield None
            return
        num_lines = line_counts.pop()
        count_bytes(sum(map(len, text_by_language.values())))
        with_sentences = {code: text for code, text in text_by_language.items() if len(text) > num_lines}
        yield LineBlock(with_sentences, num_lines, is_first)
        is_first = False


def _cut_lines(blocks: Iterable[bytes]) -> Iterator[bytes | None]:
    """Yield `ROWS_PER_BLOCK` lines at a time. Every line ends with a newline, the last one of the file too.

    None stands for a file with lines too long to hold.
    """
    parts: list[bytes] = []
    num_missing, num_bytes = ROWS_PER_BLOCK, 0
    for block in blocks:
        rest = block
        while (num_newlines := rest.count(b"\n")) >= num_missing:
            end = int(np.flatnonzero(np.frombuffer(rest, dtype=np.uint8) == NEWLINE)[num_missing - 1]) + 1
            yield b"".join([*parts, rest[:end]])
            rest = rest[end:]
            parts, num_missing, num_bytes = [], ROWS_PER_BLOCK, 0
        parts.append(rest)
        num_missing -= num_newlines
        num_bytes += len(rest)
        if num_bytes > MAX_BLOCK_BYTES:
            yield None
            return
    if text := b"".join(parts):
        yield text if text.endswith(b"\n") else text + b"\n"


def parse_block(block: LineBlock | None) -> RowBlock | None:
    """Normalize a block as `read_aligned_rows` does; None if that function may refuse its text."""
    if block is None:
        return None
    rows: list[dict[str, str]] = [{} for _ in range(block.num_lines)]
    for code, text in block.text_by_language.items():
        lines = _decode_lines(text, block)
        if lines is None:
            return None
        for row, line in zip(rows, lines, strict=False):
            if line and (sentence := to_single_line(line)):
                row[code] = sentence
    return encode_rows(rows)


def _decode_lines(text: bytes, block: LineBlock) -> list[str] | None:
    """Return the lines, or None if `read_lines` may refuse them."""
    is_one_line = block.is_first and block.num_lines == 1
    if b"\0" in text or (is_one_line and b"\r" in text):
        return None
    if len(text) > MAX_LINE_BYTES and max(map(len, text.split(b"\n"))) > MAX_LINE_BYTES:
        return None
    try:
        return text.decode("utf-8-sig" if block.is_first else "utf-8").split("\n")
    except UnicodeDecodeError:
        return None


def encode_rows(rows: Sequence[Row]) -> RowBlock:
    """Encode rows of normalized sentences as one text per language, and count copied text."""
    copies = CopiedTextCounter()
    parts: dict[str, list[str]] = {}
    num_lines: dict[str, int] = {}
    for index, row in enumerate(copies.count(rows)):
        for code, sentence in row.items():
            parts.setdefault(code, []).append("\n" * (index - num_lines.get(code, 0)))
            parts[code].append(sentence)
            num_lines[code] = index
    text_by_language = {
        code: "".join(chain(texts, ["\n" * (len(rows) - num_lines[code])])).encode() for code, texts in parts.items()
    }
    return RowBlock(text_by_language, len(rows), copies)


def _stored_bytes(source: TextSource) -> int:
    path = source if isinstance(source, Path) else source.archive
    return path.stat().st_size if path.exists() else 0
