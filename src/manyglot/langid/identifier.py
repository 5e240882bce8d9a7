"""Which language a sentence is in: by a general tool, or by profiles of the corpus's own languages.

A general tool knows many languages but errs on short text ("90 liter" is German, Swedish, Indonesian …) and knows no
synthetic or rare language. A profile is learnt from the training text, so it fits the corpus and knows only its
languages. Whichever is used, its accuracy on the references is reported beside the translations': no model can be
seen to do better than that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Literal, Protocol

import numpy as np

from manyglot.batches.dataset import Dataset
from manyglot.corpus.rows import Split
from manyglot.corpus.scripts import script_of
from manyglot.decoding.check import Identify
from manyglot.langid.tools import TOOLS, Told
from manyglot.langid.tools import Py3Langid as Py3Langid

IdentifierName = Literal["py3langid", "langid", "langdetect", "pycld2", "profile"]
MAX_NGRAM = 4
SMOOTHING = 0.1
_DENSE = {"Hans", "Hant", "Jpan", "Kore"}
"""Scripts in which a letter is a syllable or a word."""
PROFILE_SENTENCES = 2000
"""Training sentences of a language that are enough for its profile."""


class Identifier(Protocol):
    """Tells the language of a sentence."""

    name: str
    restrict: bool
    """Whether what counts is its answer among the languages of the data, or the one among all that it knows."""
    fewest_letters: int
    """Letters of a text from which on it can be trusted with a single one."""

    def label(self, code: str) -> str | None:
        """What this identifier calls a language; None if it cannot tell it, and then its accuracy is not measured."""

    def identify(self, text: str) -> str:
        """The label of the likeliest language; empty for text that is in none, as empty text is."""

    def identify_all(self, texts: Sequence[str]) -> Told:
        """The labels of many texts."""


class Profile:
    """Naive Bayes over character n-grams (all digits alike), learnt from sentences of each language."""

    name = "character n-gram profiles of the training text"
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


def accuracy(identified: Sequence[str], label: str | None) -> float | None:
    """The share of sentences, in percent, that are in a language; None if the identifier cannot tell it."""
    if label is None or not identified:
        return None
    return 100 * sum(each == label for each in identified) / len(identified)


def make_identifier(
    name: IdentifierName, dataset: Dataset, restrict: bool = True, merge_variants: bool = True
) -> Identifier:
    """The identifier of a dataset's languages."""
    if name != "profile":
        return TOOLS[name](dataset.languages, restrict, merge_variants)
    return Profile(
        {code: list(islice(dataset.sentences(Split.TRAIN, code), PROFILE_SENTENCES)) for code in dataset.languages}
    )


def labels_of(identifier: Identifier, texts: Sequence[str]) -> list[str]:
    """The labels of many texts by the answer that counts."""
    told = identifier.identify_all(texts)
    return told.restricted if identifier.restrict else told.open


def identify_with(identifier: Identifier) -> Identify:
    """What the language check asks: codes instead of labels, and nothing where a text is too short to tell."""

    def identify(texts: Sequence[str], targets: Sequence[str]) -> list[str]:
        clear = [_is_clear(identifier, text, target) for text, target in zip(texts, targets, strict=True)]
        labels = labels_of(identifier, [text if is_clear else "" for text, is_clear in zip(texts, clear, strict=True)])
        return [
            "" if not is_clear else target if label == identifier.label(target) else label
            for label, target, is_clear in zip(labels, targets, clear, strict=True)
        ]

    return identify


def _is_clear(identifier: Identifier, text: str, target: str) -> bool:
    """Whether the target is known and a text long enough to tell whether it is in it."""
    fewest = identifier.fewest_letters // (3 if script_of(target) in _DENSE else 1)
    return identifier.label(target) is not None and sum(map(str.isalpha, text)) >= fewest


def _ngrams(text: str) -> Iterator[str]:
    padded = "".join("0" if c.isdigit() else c for c in f" {text} ")
    for n in range(1, MAX_NGRAM + 1):
        yield from (padded[i : i + n] for i in range(len(padded) - n + 1))
