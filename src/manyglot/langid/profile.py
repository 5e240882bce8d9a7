"""An identifier learnt from the training text, for the languages of the corpus alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from manyglot.langid.identifier import Told

MAX_NGRAM = 4
SMOOTHING = 0.1


class Profile:
    """Naive Bayes over character n-grams (all digits alike), learnt from sentences of each language."""

    name = "profile"
    restrict = True
    fewest_letters = 4

    def __init__(self, sentences: Mapping[str, Sequence[str]]) -> None:
        self._codes = list(sentences)
        counts = [Counter(g for sentence in texts for g in _ngrams(sentence)) for texts in sentences.values()]
        self._index = {gram: i for i, gram in enumerate(sorted(set().union(*counts)))}
        table = np.full((len(self._index), len(self._codes)), SMOOTHING)
        for column, counter in enumerate(counts):
            for gram, count in counter.items():
                table[self._index[gram], column] += count
        self._logprob = np.log(table / table.sum(axis=0))

    def label(self, code: str) -> str | None:
        """The code itself."""
        return code if code in self._codes else None

    def identify(self, text: str) -> str:
        """The language whose profile makes the sentence likeliest; a sentence without known n-grams is in none."""
        found = [self._index[gram] for gram in _ngrams(text) if gram.strip() and gram in self._index]
        if not found:
            return ""
        return self._codes[int(self._logprob[found].sum(axis=0).argmax())]

    def identify_all(self, texts: Sequence[str]) -> Told:
        """The same for many; a profile knows no other languages than those of the data."""
        found = {text: self.identify(text) for text in dict.fromkeys(texts)}
        labels = [found[text] for text in texts]
        return Told(labels, labels)


def _ngrams(text: str) -> Iterator[str]:
    padded = "".join("0" if c.isdigit() else c for c in f" {text} ")
    for n in range(1, MAX_NGRAM + 1):
        yield from (padded[i : i + n] for i in range(len(padded) - n + 1))
