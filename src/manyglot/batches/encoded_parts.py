"""The subwords of prepared datasets that are parts of the corpus, so that their text is not tokenized again.

The text of the new dataset begins with the rows of these parts. A sentence that the cleaning of a part dropped has no
subwords there, so it is tokenized again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from manyglot.batches.array_files import AnyInts, IntArray, load_memory_mapped, save_array
from manyglot.batches.prepared_dataset import PreparedDataset
from manyglot.batches.token_store import TokenStore
from manyglot.checksums import FileSeal
from manyglot.corpus.base import Corpus, Split
from manyglot.corpus.mixture import MixtureCorpus, MixtureSettings, ResampledCorpus
from manyglot.corpus.prepared_text import PreparedSettings
from manyglot.corpus.readers import CorpusSettings
from manyglot.errors import FolderError
from manyglot.files import StrPath


class EncodedParts:
    """The parts of a corpus that are prepared datasets."""

    def __init__(self, settings: CorpusSettings, corpus: Corpus) -> None:
        """Open the datasets. Raise an error if one is damaged, or if their subwords differ."""
        parts = settings.parts if isinstance(settings, MixtureSettings) else (settings,)
        prepared = [part for part in parts if isinstance(part, PreparedSettings)]
        self.datasets = [PreparedDataset(part.path) for part in prepared]
        own_shares = [part.train_share for part in prepared] if isinstance(settings, MixtureSettings) else []
        self._part_shares = own_shares or [None] * len(prepared)
        self._share = settings.train_share
        mixture = corpus.original if isinstance(corpus, ResampledCorpus) else corpus
        self._codes_by_part = mixture.codes_by_part if isinstance(mixture, MixtureCorpus) else []
        for dataset in self.datasets:
            self.check_subwords(dataset.folder, dataset.seals["subwords.model"])
            dataset.verify()

    def check_subwords(self, origin: StrPath, subwords: FileSeal) -> None:
        """Raise an error if the subwords of a dataset or subword model are not those of the parts."""
        for dataset in self.datasets[:1]:
            if dataset.seals["subwords.model"] != subwords:
                raise FolderError(
                    f"{origin} and {dataset.folder} have different subwords. Prepare both with the same "
                    f"`vocabulary.sentencepiece_model`, such as {dataset.folder / 'subwords.model'}."
                )

    def write_row_numbers(self, path: Path, split: Split) -> None:
        """Write, for each row of the new dataset, its number among the rows of all parts."""
        first, rows = 0, []
        for dataset, share in zip(self.datasets, self._part_shares, strict=True):
            num_rows = dataset.metadata["rows"][split]
            rows.append(_resample(np.arange(first, first + num_rows), share if split is Split.TRAIN else None))
            first += num_rows
        save_array(path, _resample(np.concatenate(rows), self._share if split is Split.TRAIN else None))

    def text(self, row_numbers: Path, split: Split, code: str) -> EncodedText:
        """Return where to find the subwords of one language."""
        first, stores = 0, []
        for dataset, codes in zip(self.datasets, self._codes_by_part, strict=False):
            stop = first + dataset.metadata["rows"][split]
            for own_code in (own for own in dataset.languages if codes[own] == code):
                # A renamed language may have had subwords of its own under its former code.
                if own_code == code or not dataset.vocabulary.subword_model.further_languages:
                    stores.append(_StoredRows(dataset.folder, split, own_code, first, stop))
            first = stop
        return EncodedText(row_numbers, tuple(stores))


def _resample(rows: IntArray, share: float | None) -> IntArray:
    """Repeat or omit rows as `ResampledCorpus` does."""
    if share is None:
        return rows
    first_copies = (np.arange(len(rows) + 1) * share).astype(np.int64)
    return np.repeat(rows, first_copies[1:] - first_copies[:-1])


@dataclass(frozen=True)
class _StoredRows:
    """The sentences of one language in a part."""

    folder: Path
    split: Split
    code: str
    first: int
    """The number of the first row of the part among the rows of all parts."""
    stop: int


@dataclass(frozen=True)
class EncodedText:
    """Where to find the subwords of a text file of the new dataset. It can be sent to another process."""

    row_numbers: Path
    stores: Sequence[_StoredRows]

    def lookup(self, first_line: int, num_lines: int) -> tuple[IntArray, AnyInts]:
        """Return the number of subwords of each line, 0 where they are not stored, and the subwords of all lines."""
        numbers = load_memory_mapped(self.row_numbers, (np.int64,))[first_line : first_line + num_lines]
        lengths, tokens = np.zeros(num_lines, dtype=np.int64), []
        for stored in self.stores:
            store = _open_store(stored.folder, stored.split)
            lines = np.flatnonzero((numbers >= stored.first) & (numbers < stored.stop))
            sentences = store.sentence_range(stored.code)
            rows = store.rows[sentences.start : sentences.stop]
            wanted = numbers[lines] - stored.first
            position = np.searchsorted(rows, wanted)
            found = np.flatnonzero(position < len(rows))
            found = found[rows[position[found]] == wanted[found]]
            indices = position[found] + sentences.start
            lengths[lines[found]] = store.lengths(indices)
            tokens.append(store.gather(indices))
        return lengths, np.concatenate([np.zeros(0, dtype=np.uint32), *tokens])


@lru_cache(maxsize=64)
def _open_store(folder: Path, split: Split) -> TokenStore:
    return PreparedDataset(folder).token_store(split)
