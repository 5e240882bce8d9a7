"""The token store: every sentence of a split tokenised once, all languages in one flat memory-mapped array.

Sentences are numbered through all languages, in the order of the languages' codes. A sentence remembers its row, and
two sentences of one row are translations of each other; so any pair of languages is an intersection of rows, and no
sentence is stored twice.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import numpy.typing as npt

from manyglot.batches.permutation import mix
from manyglot.corpus.languages import Languages
from manyglot.errors import FolderError
from manyglot.vocabulary.subwords import UNK

IntArray = npt.NDArray[np.int64]
AnyInts = npt.NDArray[Any]


@dataclass(frozen=True)
class Part:
    """Some consecutive sentences of one language, as they come from the tokenizer."""

    rows: AnyInts
    """The row of each sentence, ascending."""
    lengths: AnyInts
    tokens: AnyInts
    """All subwords, one sentence after the other."""


class TokenStore:
    """The sentences of all languages of a split."""

    def __init__(self, folder: Path, languages: Languages) -> None:
        self.folder, self.languages = folder, languages
        self.tokens, self.offsets, self.rows, self.starts = (
            load_array(folder / f"{name}.npy") for name in ("tokens", "offsets", "rows", "starts")
        )
        if len(self.starts) != len(languages) + 1 or len(self.offsets) != len(self.rows) + 1:
            raise FolderError(f"The prepared data in {folder} is damaged. Delete the dataset and prepare it again.")

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, sentence: int) -> AnyInts:
        return self.tokens[self.offsets[sentence] : self.offsets[sentence + 1]]

    def sentences(self, code: str) -> range:
        """The numbers of a language's sentences."""
        language = self.languages.id(code)
        return range(int(self.starts[language]), int(self.starts[language + 1]))

    def languages_of(self, sentences: AnyInts) -> list[str]:
        """The language of each of some sentences."""
        return [self.languages.codes[i] for i in np.searchsorted(self.starts, sentences, side="right") - 1]

    def lengths(self, sentences: AnyInts) -> IntArray:
        """The number of subwords of some sentences."""
        lengths: IntArray = self.offsets[sentences + 1] - self.offsets[sentences]
        return lengths

    def hashes(self, sentences: range) -> npt.NDArray[np.uint64]:
        """A number for each of some consecutive sentences that is equal for equal ones.

        A sentence with unknown subwords is equal to none: what they stand for is not known any more.
        """
        offsets = self.offsets[sentences.start : sentences.stop + 1]
        if len(offsets) < 2:
            return np.zeros(0, dtype=np.uint64)
        starts, lengths = offsets[:-1] - offsets[0], np.diff(offsets)
        place = np.arange(offsets[-1] - offsets[0]) - np.repeat(starts, lengths)
        tokens = self.tokens[offsets[0] : offsets[-1]]
        known = np.add.reduceat(mix(tokens, place), starts)
        alone = mix(np.arange(sentences.start, sentences.stop), crc32(self.folder.name.encode()), len(self))
        return np.where(np.add.reduceat(tokens == UNK, starts, dtype=np.int64) > 0, alone, known)

    def pairs(self, one: str, other: str) -> tuple[IntArray, IntArray]:
        """The numbers of the sentences of two languages that translate each other, in the order of their rows."""
        if len(self.sentences(one)) > len(self.sentences(other)):
            theirs, mine = self.pairs(other, one)
            return mine, theirs
        few, many = self.sentences(one), self.sentences(other)
        rows, all_rows = self.rows[few.start : few.stop], self.rows[many.start : many.stop]
        place = np.searchsorted(all_rows, rows)
        found = np.flatnonzero(place < len(all_rows))
        found = found[all_rows[place[found]] == rows[found]]
        return found + few.start, place[found] + many.start


def write_store(folder: Path, languages: Iterable[Iterable[Part]], sizes: tuple[int, int], vocabulary: int) -> None:
    """Write the parts of each language one after the other; `sizes` are the numbers of sentences and of subwords."""
    folder.mkdir(parents=True, exist_ok=True)
    num_sentences, num_tokens = sizes
    tokens = _create(folder / "tokens.npy", num_tokens, np.uint16 if vocabulary <= 2**16 else np.uint32)
    offsets = _create(folder / "offsets.npy", num_sentences + 1, np.int64)
    rows = _create(folder / "rows.npy", num_sentences, np.uint32)
    starts, sentence, token = [0], 0, 0
    offsets[0] = 0
    for parts in languages:
        for part in parts:
            end, last = sentence + len(part.rows), token + len(part.tokens)
            rows[sentence:end] = part.rows
            offsets[sentence + 1 : end + 1] = token + np.cumsum(part.lengths, dtype=np.int64)
            tokens[token:last] = part.tokens
            sentence, token = end, last
        starts.append(sentence)
    assert (sentence, token) == sizes, "all that was counted is written"
    np.save(folder / "starts.npy", np.array(starts, dtype=np.int64))


def load_array(path: Path) -> AnyInts:
    """A memory-mapped array of the store."""
    try:
        array: AnyInts = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise FolderError(
            f"The prepared data in {path.parent} is damaged ({error}). Delete the dataset and prepare it again."
        ) from None
    return np.asarray(array)  # a plain view: indexing a memmap object costs more than the lookup


def _create(path: Path, size: int, kind: Any) -> AnyInts:
    """A new array on disk, to be filled in place; numpy cannot map an empty one."""
    if size == 0:
        np.save(path, np.zeros(0, dtype=kind))
        return np.zeros(0, dtype=kind)
    created: AnyInts = np.lib.format.open_memmap(path, mode="w+", dtype=kind, shape=(size,))
    if hasattr(os, "posix_fallocate"):  # a disk that is full would otherwise kill us when the array is filled
        with path.open("r+b") as file:
            os.posix_fallocate(file.fileno(), 0, path.stat().st_size)
    return created
