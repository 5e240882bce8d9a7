"""The `LanguageIdentifier` protocol and the functions that cleaning, decoding and evaluation call.

`external_identifiers.py` wraps third-party packages. They know many languages, but err on short text ("90 liter" is
German, Swedish, Indonesian …) and know no synthetic or rare languages. `ngram_profile.py` learns character n-grams from
the training text, so it fits the corpus and knows only its languages. No identifier is perfect: its accuracy on the
references is the ceiling of its accuracy on the translations, and both are reported.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from manyglot.corpus.scripts import language_script_code

OffTargetDetector = Callable[[Sequence[str], Sequence[str]], Sequence[str]]
"""Called with texts and their target languages. Returns the target's code for each text in the target language, another
label for a text in another language, and "" for a text too short to identify."""

DENSE_SCRIPTS = {"Hans", "Hant", "Jpan", "Kore"}
"""Scripts in which a character is a syllable or a word."""


RESTRICTED, UNRESTRICTED, SEPARATE_VARIANTS = "restricted", "unrestricted", "separate_variants"
"""Parts of a signature: the languages to choose from, and whether near-identical languages are separate."""
_SIGNATURE_DESCRIPTIONS = {
    "profile": "character n-gram profiles of the training text",
    RESTRICTED: "restricted to the languages of the data",
    SEPARATE_VARIANTS: "language variants separate",
}
"""Parts of a signature in words; other parts are shown as they are."""


def describe_identifier(signature: str) -> str:
    """Describe the `signature` of an identifier in words."""
    return ", ".join(_SIGNATURE_DESCRIPTIONS.get(part, part) for part in signature.split(":"))


class LanguagePredictions(NamedTuple):
    """The labels of some texts; "" for a text in no language, such as an empty one."""

    restricted: list[str]
    """The most likely of the languages of the data."""
    unrestricted: list[str]
    """The most likely of all languages that the identifier knows."""


class LanguageIdentifier(Protocol):
    """Identifies the language of texts."""

    signature: str
    """The package and its options, such as `py3langid:restricted`. Only runs with equal signatures are comparable."""
    is_restricted: bool
    """Whether the restricted prediction counts; otherwise, the unrestricted one does."""
    min_letters: int
    """Minimum number of letters for a reliable prediction."""

    def label_for(self, code: str) -> str | None:
        """Return the label that predictions use for a language; None if it cannot be identified."""

    def identify(self, text: str) -> str:
        """Return the label of the most likely language; "" for text in no language, such as empty text."""

    def identify_batch(self, texts: Sequence[str]) -> LanguagePredictions:
        """Return the labels of many texts."""


def language_accuracy(predicted_labels: Sequence[str], label: str | None) -> float | None:
    """Return the percentage of texts with a label; None if the label is None or there are no texts."""
    if label is None or not predicted_labels:
        return None
    return 100 * sum(predicted == label for predicted in predicted_labels) / len(predicted_labels)


def predict_labels(identifier: LanguageIdentifier, texts: Sequence[str]) -> list[str]:
    """Return the prediction that counts, restricted or unrestricted, for each text."""
    predictions = identifier.identify_batch(texts)
    return predictions.restricted if identifier.is_restricted else predictions.unrestricted


def make_off_target_detector(identifier: LanguageIdentifier) -> OffTargetDetector:
    """Return the function that `OffTargetFilter` calls to identify the language of outputs."""

    def detect(texts: Sequence[str], targets: Sequence[str]) -> list[str]:
        can_identify = [_can_identify(identifier, text, target) for text, target in zip(texts, targets, strict=True)]
        labels = predict_labels(
            identifier,
            [text if is_long_enough else "" for text, is_long_enough in zip(texts, can_identify, strict=True)],
        )
        return [
            "" if not is_long_enough else target if label == identifier.label_for(target) else label
            for label, target, is_long_enough in zip(labels, targets, can_identify, strict=True)
        ]

    return detect


def _can_identify(identifier: LanguageIdentifier, text: str, target: str) -> bool:
    """Whether the identifier knows the target language and the text is long enough to be identified."""
    min_letters = identifier.min_letters // (3 if language_script_code(target) in DENSE_SCRIPTS else 1)
    return identifier.label_for(target) is not None and sum(map(str.isalpha, text)) >= min_letters
