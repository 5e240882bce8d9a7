"""The token store: the tokenized sentences of a split, all languages in one flat memory-mapped array.

Sentences have consecutive indices, language after language in the order of the codes. The store keeps the row of each
sentence in the corpus. Two sentences of the same row are translations of each other. The pairs of two languages are
therefore found by intersecting their rows, and no sentence is stored twice.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

import numpy as np
import numpy.typing as npt

from manyglot.batches.array_files import (
    ITEMS_PER_CHECK,
    AnyInts,
    IntArray,
    all_chunks,
    create_memory_mapped,
    load_memory_mapped,
    save_array,
)
from manyglot.batches.permutation import hash_numbers
from manyglot.corpus.languages import Languages
from manyglot.corpus.prepared_text import damaged_data
from manyglot.vocabulary.subword_model import UNK

TOKEN_STORE_FILES = ("tokens.npy", "offsets.npy", "rows.npy", "starts.npy")


@dataclass(frozen=True)
class TokenizedSentences:
    """Consecutive tokenized sentences of one language."""

    rows: AnyInts
    """Row of each sentence, ascending."""
    lengths: AnyInts
    """Number of subwords of each sentence."""
    tokens: AnyInts
    """The subwords of all sentences, concatenated."""


class TokenStore:
    """The tokenized sentences of all languages of a split."""

    def __init__(self, folder: Path, languages: Languages, num_subwords: int) -> None:
        """Open a store whose subwords have ids below `num_subwords`; raise a FolderError if it is damaged."""
        self.folder, self.languages, self.num_subwords = folder, languages, num_subwords
        self.tokens = load_memory_mapped(folder / "tokens.npy", (np.uint16, np.uint32))
        self.offsets = load_memory_mapped(folder / "offsets.npy", (np.int64,))
        self.rows = load_memory_mapped(folder / "rows.npy", (np.uint32,))
        self.starts = load_memory_mapped(folder / "starts.npy", (np.int64,))
        self._check_starts()
        self._check_offsets()
        self._check_rows()
        self._check_tokens()

    def _check_starts(self) -> None:
        is_complete = len(self.starts) == len(self.languages) + 1 and self.starts[0] == 0
        if not is_complete or (np.diff(self.starts) < 0).any():
            raise damaged_data(self.folder / "starts.npy", "it does not divide the sentences by language")
        if self.starts[-1] != len(self.rows):
            raise damaged_data(self.folder / "rows.npy", f"it should have {self.starts[-1]} rows")

    def _check_offsets(self) -> None:
        """Check that every sentence has subwords, and that the sentences make up the whole array of subwords."""
        offsets, num_sentences = self.offsets, len(self.rows)
        if len(offsets) != num_sentences + 1 or (offsets[0], offsets[-1]) != (0, len(self.tokens)):
            raise damaged_data(self.folder / "offsets.npy", "it does not match the sentences and their subwords")
        if not all_chunks(lambda i, j: bool((offsets[i + 1 : j + 1] > offsets[i:j]).all()), num_sentences):
            raise damaged_data(self.folder / "offsets.npy", "its offsets do not ascend")

    def _check_rows(self) -> None:
        """Check that the rows of each language ascend."""

        def ascend(i: int, j: int) -> bool:
            not_ascending = np.flatnonzero(self.rows[i + 1 : j + 1] <= self.rows[i:j]) + i + 1
            return bool(np.isin(not_ascending, self.starts).all())

        if not all_chunks(ascend, max(len(self.rows) - 1, 0)):
            raise damaged_data(self.folder / "rows.npy", "its rows do not ascend")

    def _check_tokens(self) -> None:
        """Check that all tokens are subwords. Padding and </s> are never stored, so an array of zeros is refused."""

        def are_subwords(i: int, j: int) -> bool:
            tokens = self.tokens[i:j]
            return bool(tokens.min() >= UNK and tokens.max() < self.num_subwords)

        if not all_chunks(are_subwords, len(self.tokens)):
            raise damaged_data(self.folder / "tokens.npy", "it has ids that are not subwords")

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, sentence: int) -> AnyInts:
        return self.tokens[self.offsets[sentence] : self.offsets[sentence + 1]]

    def sentence_range(self, code: str) -> range:
        """Return the index range of a language's sentences."""
        language = self.languages.id(code)
        return range(int(self.starts[language]), int(self.starts[language + 1]))

    def used_subwords(self, code: str) -> set[int]:
        """Return the ids that occur in the sentences of a language."""
        sentences, is_used = self.sentence_range(code), np.zeros(self.num_subwords, dtype=bool)
        stop = int(self.offsets[sentences.stop])
        for start in range(int(self.offsets[sentences.start]), stop, ITEMS_PER_CHECK):
            is_used[self.tokens[start : min(start + ITEMS_PER_CHECK, stop)]] = True
        return set(np.flatnonzero(is_used).tolist())

    def language_codes(self, sentence_indices: AnyInts) -> list[str]:
        """Return the language code of each sentence, given by index."""
        return [self.languages.codes[i] for i in np.searchsorted(self.starts, sentence_indices, side="right") - 1]

    def lengths(self, sentence_indices: AnyInts) -> IntArray:
        """Return the number of subwords of each sentence, given by index."""
        lengths: IntArray = self.offsets[sentence_indices + 1] - self.offsets[sentence_indices]
        return lengths

    def gather(self, sentence_indices: IntArray) -> AnyInts:
        """Return the subwords of sentences, given by index, one sentence after the other."""
        lengths = self.lengths(sentence_indices)
        starts = self.offsets[sentence_indices] - (np.cumsum(lengths) - lengths)
        tokens: AnyInts = self.tokens[np.repeat(starts, lengths) + np.arange(lengths.sum())]
        return tokens

    def hashes(self, index_range: range) -> npt.NDArray[np.uint64]:
        """Hash each sentence of an index range; equal sentences have equal hashes.

        A sentence with unknown subwords gets a hash of its own, because the text behind them is lost.
        """
        offsets = self.offsets[index_range.start : index_range.stop + 1]
        if len(offsets) < 2:
            return np.zeros(0, dtype=np.uint64)
        starts, lengths = offsets[:-1] - offsets[0], np.diff(offsets)
        position = np.arange(offsets[-1] - offsets[0]) - np.repeat(starts, lengths)
        tokens = self.tokens[offsets[0] : offsets[-1]]
        content_hashes = np.add.reduceat(hash_numbers(tokens, position), starts)
        indices = np.arange(index_range.start, index_range.stop)
        unique_hashes = hash_numbers(indices, crc32(self.folder.name.encode()), len(self))
        has_unknown = np.add.reduceat(tokens == UNK, starts, dtype=np.int64) > 0
        return np.where(has_unknown, unique_hashes, content_hashes)

    def translation_pairs(self, source: str, target: str) -> tuple[IntArray, IntArray]:
        """Return the indices of all translation pairs of two languages, in the order of rows."""
        if len(self.sentence_range(source)) > len(self.sentence_range(target)):
            target_indices, source_indices = self.translation_pairs(target, source)
            return source_indices, target_indices
        smaller, larger = self.sentence_range(source), self.sentence_range(target)
        rows, other_rows = self.rows[smaller.start : smaller.stop], self.rows[larger.start : larger.stop]
        position = np.searchsorted(other_rows, rows)
        paired = np.flatnonzero(position < len(other_rows))
        paired = paired[other_rows[position[paired]] == rows[paired]]
        return paired + smaller.start, position[paired] + larger.start


def write_token_store(
    folder: Path,
    sentences_by_language: Iterable[Iterable[TokenizedSentences]],
    *,
    num_sentences: int,
    num_tokens: int,
    vocabulary_size: int,
) -> None:
    """Write the sentences of all languages, given their total numbers of sentences and of subwords."""
    folder.mkdir(parents=True, exist_ok=True)
    token_type = np.uint16 if vocabulary_size <= 2**16 else np.uint32
    tokens = create_memory_mapped(folder / "tokens.npy", num_tokens, token_type)
    offsets = create_memory_mapped(folder / "offsets.npy", num_sentences + 1, np.int64)
    rows = create_memory_mapped(folder / "rows.npy", num_sentences, np.uint32)
    starts, sentence, token = [0], 0, 0
    offsets[0] = 0
    for parts in sentences_by_language:
        for part in parts:
            sentence_end, token_end = sentence + len(part.rows), token + len(part.tokens)
            rows[sentence:sentence_end] = part.rows
            offsets[sentence + 1 : sentence_end + 1] = token + np.cumsum(part.lengths, dtype=np.int64)
            tokens[token:token_end] = part.tokens
            sentence, token = sentence_end, token_end
        starts.append(sentence)
    assert (sentence, token) == (num_sentences, num_tokens), "the counted and the written sentences differ"
    save_array(folder / "starts.npy", np.array(starts, dtype=np.int64))
