"""The token store: every sentence of a split tokenised once, one flat memory-mapped array per language.

A sentence remembers its row, and two sentences of one row are translations of each other; so any direction is an
intersection of rows and no sentence is stored twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from manyglot.corpus.cleaning import Numbered
from manyglot.corpus.languages import Direction, Languages
from manyglot.errors import FolderError

IntArray = npt.NDArray[np.int64]


class SentenceStore:
    """The sentences of one language."""

    def __init__(self, tokens: npt.NDArray[Any], offsets: IntArray, rows: IntArray) -> None:
        self.tokens, self.offsets, self.rows = tokens, offsets, rows
        self.lengths = np.diff(offsets)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> npt.NDArray[Any]:
        sentence: npt.NDArray[Any] = self.tokens[self.offsets[index] : self.offsets[index + 1]]
        return sentence


class TokenStore:
    """The sentences of all languages of a split."""

    def __init__(self, folder: Path, languages: Languages) -> None:
        self.languages = languages
        self._sentences = {code: _load(folder, code) for code in languages}

    def __getitem__(self, code: str) -> SentenceStore:
        return self._sentences[code]

    def pairs(self, direction: Direction) -> tuple[IntArray, IntArray]:
        """The indices of source and target sentences that translate each other."""
        source, target = self[direction.source], self[direction.target]
        _, i, j = np.intersect1d(source.rows, target.rows, assume_unique=True, return_indices=True)
        return i, j


def write_sentences(folder: Path, code: str, sentences: Sequence[Numbered], vocabulary_size: int) -> None:
    """Write one language's sentences, in the order of their rows."""
    folder.mkdir(parents=True, exist_ok=True)
    rows, ids = [row for row, _ in sentences], [sentence for _, sentence in sentences]
    kind = np.uint16 if vocabulary_size <= np.iinfo(np.uint16).max else np.uint32
    flat = np.fromiter((i for sentence in ids for i in sentence), dtype=kind)
    offsets = np.concatenate([[0], np.cumsum([len(sentence) for sentence in ids], dtype=np.int64)]).astype(np.int64)
    for part, array in (("tokens", flat), ("offsets", offsets), ("rows", np.array(rows, dtype=np.int64))):
        np.save(folder / f"{code}.{part}.npy", array)


def _load(folder: Path, code: str) -> SentenceStore:
    try:
        arrays = [
            np.load(folder / f"{code}.{part}.npy", mmap_mode="r", allow_pickle=False)
            for part in ("tokens", "offsets", "rows")
        ]
    except (OSError, ValueError, EOFError) as error:
        raise FolderError(
            f"The prepared data in {folder} is damaged ({error}). Delete the dataset and prepare it again."
        ) from None
    return SentenceStore(*arrays)
