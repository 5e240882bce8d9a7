"""The language of a sentence: the `Identifier` protocol, and what cleaning, decoding and evaluation ask of it.

`tools.py` wraps general tools. They know many languages, but err on short text ("90 liter" is German, Swedish,
Indonesian …) and know no synthetic or rare language. `profile.py` learns character n-grams from the training text, so
it fits the corpus and knows only its languages. No identifier is perfect: its accuracy on the references is reported
beside its accuracy on the translations, and is their ceiling.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from manyglot.corpus.scripts import script_of

Identify = Callable[[Sequence[str], Sequence[str]], Sequence[str]]
"""Identifies texts, given their target languages: returns the target code where a text is in it, another code where it
is not, and the empty string where the text is too short to tell."""

_DENSE = {"Hans", "Hant", "Jpan", "Kore"}
"""Scripts in which a letter is a syllable or a word."""


RESTRICTED, OPEN, VARIANTS_APART = "restricted", "open", "variants_apart"
"""The parts of an identifier's name that say which of its answers count."""
_LABELS = {
    "profile": "character n-gram profiles of the training text",
    RESTRICTED: "restricted to the languages of the data",
    VARIANTS_APART: "variants told apart",
}
"""The parts of an identifier's name in words; other parts stand for themselves."""


def describe_identifier(name: str) -> str:
    """The `name` of an identifier in words."""
    return ", ".join(_LABELS.get(part, part) for part in name.split(":"))


class Told(NamedTuple):
    """The labels of some texts; empty for a text in no language, as an empty one is."""

    restricted: list[str]
    """Among the languages of the data."""
    open: list[str]
    """Among all that the identifier knows."""


class Identifier(Protocol):
    """Tells the language of a sentence."""

    name: str
    """The tool and how it is used, such as `py3langid:restricted`; `describe_identifier` says it in words."""
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


def accuracy(identified: Sequence[str], label: str | None) -> float | None:
    """The share of sentences, in percent, that are in a language; None if the identifier cannot tell it."""
    if label is None or not identified:
        return None
    return 100 * sum(each == label for each in identified) / len(identified)


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
