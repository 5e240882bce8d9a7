"""A language identifier learned from the training text; it knows only the languages of the corpus."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from manyglot.langid.identifier import LanguagePredictions

MAX_NGRAM = 4
ADDITIVE_SMOOTHING = 0.1


class NgramProfileIdentifier:
    """Naive Bayes over character n-grams, learned from sentences of each language. All digits count as equal."""

    signature = "profile"
    is_restricted = True
    min_letters = 4

    def __init__(self, sentences_by_language: Mapping[str, Sequence[str]]) -> None:
        self._language_codes = list(sentences_by_language)
        counts_by_language = [
            Counter(ngram for sentence in texts for ngram in _character_ngrams(sentence))
            for texts in sentences_by_language.values()
        ]
        self._ngram_index = {ngram: i for i, ngram in enumerate(sorted(set().union(*counts_by_language)))}
        counts_GL = np.full((len(self._ngram_index), len(self._language_codes)), ADDITIVE_SMOOTHING)
        for column, counter in enumerate(counts_by_language):
            for ngram, count in counter.items():
                counts_GL[self._ngram_index[ngram], column] += count
        self._log_probability_GL = np.log(counts_GL / counts_GL.sum(axis=0))

    def label_for(self, code: str) -> str | None:
        """Return the code itself; None if the language has no profile."""
        return code if code in self._language_codes else None

    def identify(self, text: str) -> str:
        """Return the most likely language; "" for text without a known n-gram."""
        rows = [
            self._ngram_index[ngram]
            for ngram in _character_ngrams(text)
            if ngram.strip() and ngram in self._ngram_index
        ]
        if not rows:
            return ""
        return self._language_codes[int(self._log_probability_GL[rows].sum(axis=0).argmax())]

    def identify_batch(self, texts: Sequence[str]) -> LanguagePredictions:
        """Return the labels of many texts; both predictions are the same."""
        label_by_text = {text: self.identify(text) for text in dict.fromkeys(texts)}
        labels = [label_by_text[text] for text in texts]
        return LanguagePredictions(labels, labels)


def _character_ngrams(text: str) -> Iterator[str]:
    padded = "".join("0" if c.isdigit() else c for c in f" {text} ")
    for n in range(1, MAX_NGRAM + 1):
        yield from (padded[i : i + n] for i in range(len(padded) - n + 1))
