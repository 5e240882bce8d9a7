from __future__ import annotations

import numpy as np
import pytest

from manyglot.batches.prepared_dataset import PreparedDataset
from manyglot.batches.source_lengths import SourceLengths, measure_source_lengths
from manyglot.config.base_settings import parse_settings
from manyglot.corpus.base import Split
from manyglot.errors import ManyglotError


def test_the_lengths_are_those_of_the_training_text(dataset: PreparedDataset) -> None:
    codes = list(dataset.languages)[:2]
    texts = [text for code in codes for text in dataset.sentences(Split.TRAIN, code)]
    lengths = sorted(map(len, dataset.vocabulary.encode(texts)))
    measured = measure_source_lengths(dataset, [*codes, codes[0]])
    assert measured.max_subwords == lengths[-1]
    assert measured.subwords_p99 == np.percentile(lengths, 99, method="inverted_cdf")
    assert measured.sentences_p99 == 1


def test_lines_with_several_sentences_are_counted(dataset: PreparedDataset, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("manyglot.vocabulary.vocabulary.Vocabulary.decode", lambda _, ids: ["One. Two. 3!"] * len(ids))
    assert measure_source_lengths(dataset, dataset.languages).sentences_p99 == 3


def test_impossible_lengths_are_rejected() -> None:
    with pytest.raises(ManyglotError, match="max_subwords"):
        parse_settings(SourceLengths, {"subwords_p99": 9, "sentences_p99": 1, "max_subwords": 8})
    with pytest.raises(ManyglotError, match="sentences_p99"):
        parse_settings(SourceLengths, {"sentences_p99": 0})
