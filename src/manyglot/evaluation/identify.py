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
from manyglot.corpus.languages import Languages, primary
from manyglot.corpus.rows import Split
from manyglot.corpus.scripts import script_of
from manyglot.decoding.check import Identify
from manyglot.errors import ManyglotError

IdentifierName = Literal["py3langid", "profile"]
MAX_NGRAM = 4
SMOOTHING = 0.1
_DENSE = {"Hans", "Hant", "Jpan", "Kore"}
"""Scripts in which a letter is a syllable or a word."""
PROFILE_SENTENCES = 2000
"""Training sentences of a language that are enough for its profile."""


class Identifier(Protocol):
    """Tells the language of a sentence."""

    name: str
    fewest_letters: int
    """Letters of a text from which on it can be trusted with a single one."""

    def label(self, code: str) -> str | None:
        """What this identifier calls a language; None if it cannot tell it, and then its accuracy is not measured."""

    def identify(self, text: str) -> str:
        """The label of the likeliest language; empty for text that is in none, as empty text is."""


class Py3Langid:
    """The general tool py3langid, restricted to the given languages."""

    fewest_letters = 16

    def __init__(self, languages: Languages) -> None:
        from py3langid.langid import MODEL_FILE, LanguageIdentifier  # here, because its model takes a moment

        self.name = "py3langid, restricted to the languages of the data"
        self._identifier = LanguageIdentifier.from_model_file(MODEL_FILE)
        known = {str(label) for label in self._identifier.nb_classes}
        self._labels = {code: primary(code) for code in languages if primary(code) in known}
        if not self._labels:
            raise ManyglotError("py3langid knows none of the languages. Set evaluation.identifier to profile.")
        self._identifier.set_languages(sorted(set(self._labels.values())))

    def label(self, code: str) -> str | None:
        """The code without region or script."""
        return self._labels.get(code)

    def identify(self, text: str) -> str:
        """Ask the tool."""
        return "" if not text.strip() else str(self._identifier.classify(text)[0])


class Profile:
    """Naive Bayes over character n-grams (all digits alike), learnt from sentences of each language."""

    name = "character n-gram profiles of the training text"
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


def accuracy(identified: Sequence[str], label: str | None) -> float | None:
    """The share of sentences, in percent, that are in a language; None if the identifier cannot tell it."""
    if label is None or not identified:
        return None
    return 100 * sum(each == label for each in identified) / len(identified)


def make_identifier(name: IdentifierName, dataset: Dataset) -> Identifier:
    """The identifier of a dataset's languages."""
    if name == "py3langid":
        return Py3Langid(dataset.languages)
    return Profile(
        {code: list(islice(dataset.sentences(Split.TRAIN, code), PROFILE_SENTENCES)) for code in dataset.languages}
    )


def identify_with(identifier: Identifier) -> Identify:
    """What the language check asks: codes instead of labels, and nothing where a text is too short to tell."""

    def identify(texts: Sequence[str], targets: Sequence[str]) -> list[str]:
        return [_code(identifier, text, target) for text, target in zip(texts, targets, strict=True)]

    return identify


def _code(identifier: Identifier, text: str, target: str) -> str:
    """The target where a text is in it, what it is in instead, or nothing."""
    wanted = identifier.label(target)
    fewest = identifier.fewest_letters // (3 if script_of(target) in _DENSE else 1)
    if wanted is None or sum(map(str.isalpha, text)) < fewest:
        return ""
    found = identifier.identify(text)
    return target if found == wanted else found


def _ngrams(text: str) -> Iterator[str]:
    padded = "".join("0" if c.isdigit() else c for c in f" {text} ")
    for n in range(1, MAX_NGRAM + 1):
        yield from (padded[i : i + n] for i in range(len(padded) - n + 1))
