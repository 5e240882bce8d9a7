"""A translation with its score, and warnings about its source text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

TextWarningKind = Literal["too_long", "unknown_characters"]


class TextWarning(NamedTuple):
    """Why the translation of a text may be incomplete."""

    kind: TextWarningKind
    message: str
    """A clause whose subject is the text, such as `has a sentence of 120 subwords, but …`."""


@dataclass(frozen=True)
class Translation:
    """One translation of a text."""

    text: str
    score: float
    """Log-probability, divided by the length in subwords (including the end symbol) to the power of the length
    penalty. For a text that was split into sentences, the mean of their scores."""
    on_target: bool | None = None
    """Whether the text is in the target language. None if it was not checked or cannot be identified."""
    warnings: tuple[TextWarning, ...] = ()
    """Why parts of the source text may be missing."""


@dataclass(frozen=True)
class TranslationScore:
    """How probable a given translation is to the model."""

    log_probability: float
    """The sum of the natural logarithms of the probabilities of its subwords and of the end symbol."""
    score: float
    """The log-probability, divided by the length as in `Translation`."""
    warnings: tuple[TextWarning, ...] = ()
    """Characters that the model does not know. The score counts `<unk>` in their place."""

    @classmethod
    def from_length(cls, log_probability: float, length: int, length_penalty: float) -> TranslationScore:
        """Return the score of a translation whose length includes the end symbol and the tags that are predicted."""
        return cls(log_probability, log_probability / length**length_penalty)
