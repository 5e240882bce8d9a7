"""Count how many translations each sentence of a corpus has.

The paper uses these counts to explain why a language token works on one dataset but not on another: most English
sentences of TED-59 are translated into many languages, most of OPUS-100 into one.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from manyglot.corpus.base import Row
from manyglot.errors import CorpusError


@dataclass(frozen=True)
class TranslationCounts:
    """A histogram of translations per unique sentence of the central language."""

    central_language: str
    num_sentences: int
    """Unique sentences of the central language."""
    num_sentences_by_translations: dict[int, int]
    """Maps a number of translations to the number of sentences that have exactly that many."""

    @property
    def mean(self) -> float:
        """Mean number of translations per sentence."""
        return (
            sum(number * sentences for number, sentences in self.num_sentences_by_translations.items())
            / self.num_sentences
        )

    @property
    def share_with_several(self) -> float:
        """Share of the sentences with more than one translation."""
        return 1 - self.num_sentences_by_translations.get(1, 0) / self.num_sentences

    def to_dict(self) -> dict[str, Any]:
        """Return the counts as plain values."""
        return {
            "central_language": self.central_language,
            "num_sentences": self.num_sentences,
            "mean": self.mean,
            "share_with_several": self.share_with_several,
            "num_sentences_by_translations": {str(n): count for n, count in self.num_sentences_by_translations.items()},
        }


def count_distinct_translations(rows: Iterable[Row], central_language: str) -> TranslationCounts:
    """Count the distinct translations of each unique sentence of the central language, ignoring whitespace.

    Sentences are compared by 64-bit hashes, so that 55M pairs fit into memory.
    """
    sentence_hashes, translation_hashes = array("q"), array("q")
    for row in rows:
        if central_language in row and len(row) > 1:
            sentence = hash(" ".join(row[central_language].split()))
            for code, text in row.items():
                if code != central_language:
                    sentence_hashes.append(sentence)
                    translation_hashes.append(hash((sentence, code, text)))
    if not sentence_hashes:
        raise CorpusError(f"The corpus has no sentence in '{central_language}' with a translation.")
    _, first_occurrences = np.unique(np.frombuffer(translation_hashes, dtype=np.int64), return_index=True)
    distinct_pairs = np.frombuffer(sentence_hashes, dtype=np.int64)[first_occurrences]
    _, num_translations = np.unique(distinct_pairs, return_counts=True)
    values, num_sentences = np.unique(num_translations, return_counts=True)
    histogram = dict(zip(values.tolist(), num_sentences.tolist(), strict=True))
    return TranslationCounts(central_language, len(num_translations), histogram)
