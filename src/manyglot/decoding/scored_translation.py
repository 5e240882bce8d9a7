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
