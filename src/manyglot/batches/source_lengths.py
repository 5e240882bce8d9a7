"""The lengths of the training text on the source side. Text that is longer may lose sentences in translation."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from pydantic import Field, model_validator

from manyglot.batches.array_files import IntArray
from manyglot.batches.prepared_dataset import PreparedDataset
from manyglot.config.base_settings import MAX_COUNT, Settings
from manyglot.corpus.base import Split
from manyglot.corpus.sentence_splitter import SentenceSplitter, count_clear_sentences

PERCENTILE = 99
MAX_SAMPLED_LINES = 1000
"""Maximum number of lines per language whose sentences are counted."""


class SourceLengths(Settings):
    """Lengths of the training lines on the source side. The defaults are for models that do not know them."""

    subwords_p99: int = Field(100, ge=1, le=MAX_COUNT)
    """99th percentile of the number of subwords per line."""
    sentences_p99: int = Field(1, ge=1, le=MAX_COUNT)
    """99th percentile of the number of sentences per line."""
    max_subwords: int = Field(100, ge=1, le=MAX_COUNT)
    """Maximum number of subwords per line."""

    @model_validator(mode="after")
    def _percentile_is_not_above_maximum(self) -> SourceLengths:
        if self.subwords_p99 > self.max_subwords:
            raise ValueError("subwords_p99 is larger than max_subwords.")
        return self


DEFAULT_SOURCE_LENGTHS = SourceLengths()


def measure_source_lengths(dataset: PreparedDataset, source_languages: Iterable[str]) -> SourceLengths:
    """Measure the training text in some languages.

    All lines count for the number of subwords, and evenly spaced ones for the number of sentences.
    """
    store, splitter = dataset.token_store(Split.TRAIN), SentenceSplitter(dataset.languages)
    num_lines_by_subwords = np.zeros(1, dtype=np.int64)
    num_sentences: list[int] = []
    for code in sorted(set(source_languages)):
        lines = store.sentence_range(code)
        counts = np.bincount(np.diff(store.offsets[lines.start : lines.stop + 1]))
        num_lines_by_subwords = _add_padded(num_lines_by_subwords, counts)
        sample = np.unique(np.linspace(lines.start, lines.stop, MAX_SAMPLED_LINES, endpoint=False, dtype=np.int64))
        texts = dataset.vocabulary.decode([store[line].tolist() for line in sample.tolist()] if len(lines) else [])
        num_sentences += [count_clear_sentences(splitter.split(text)) for text in texts]
    cumulative = np.cumsum(num_lines_by_subwords)
    subwords_p99 = int(np.searchsorted(cumulative, cumulative[-1] * PERCENTILE / 100))
    sentences_p99 = int(np.percentile(num_sentences or [1], PERCENTILE, method="inverted_cdf"))
    return SourceLengths(
        subwords_p99=max(1, subwords_p99),
        sentences_p99=max(1, sentences_p99),
        max_subwords=max(1, len(num_lines_by_subwords) - 1),
    )


def _add_padded(counts: IntArray, more: IntArray) -> IntArray:
    """Add two arrays of counts of different lengths."""
    total = np.zeros(max(len(counts), len(more)), dtype=np.int64)
    total[: len(counts)] += counts
    total[: len(more)] += more
    return total
