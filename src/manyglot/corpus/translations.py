"""Into how many languages the sentences of a corpus are translated.

The paper explains by it why a language token works on one dataset and not on another: most English sentences of TED-59
have translations in many languages, most of OPUS-100 have one.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from manyglot.corpus.rows import Row
from manyglot.errors import CorpusError


@dataclass(frozen=True)
class Translations:
    """How many unique sentences of the pivot have how many translations."""

    pivot: str
    num_sentences: int
    """Unique ones."""
    counts: dict[int, int]
    """For each number of translations, the sentences that have so many."""

    @property
    def mean(self) -> float:
        """Translations of a sentence."""
        return sum(number * sentences for number, sentences in self.counts.items()) / self.num_sentences

    @property
    def several(self) -> float:
        """The share of the sentences with more than one."""
        return 1 - self.counts.get(1, 0) / self.num_sentences

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "pivot": self.pivot,
            "num_sentences": self.num_sentences,
            "mean": self.mean,
            "several": self.several,
            "counts": {str(number): sentences for number, sentences in self.counts.items()},
        }


def count_translations(rows: Iterable[Row], pivot: str) -> Translations:
    """Count the different translations of each unique sentence of the pivot, white space aside.

    Sentences are told apart by 64 bits, so that 55M pairs fit into memory.
    """
    sentences, translations = array("q"), array("q")
    for row in rows:
        if pivot in row and len(row) > 1:
            sentence = hash(" ".join(row[pivot].split()))
            for code, text in row.items():
                if code != pivot:
                    sentences.append(sentence)
                    translations.append(hash((sentence, code, text)))
    if not sentences:
        raise CorpusError(f"The corpus has no sentence in '{pivot}' with a translation.")
    _, first = np.unique(np.frombuffer(translations, dtype=np.int64), return_index=True)
    _, numbers = np.unique(np.frombuffer(sentences, dtype=np.int64)[first], return_counts=True)
    how_many, of_them = np.unique(numbers, return_counts=True)
    return Translations(pivot, len(numbers), dict(zip(how_many.tolist(), of_them.tolist(), strict=True)))
