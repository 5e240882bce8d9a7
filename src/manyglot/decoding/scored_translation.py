"""A translation with its score."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Translation:
    """One translation of a sentence."""

    text: str
    score: float
    """Log-probability, divided by the length in subwords (including the end symbol) to the power of the length
    penalty."""
    on_target: bool | None = None
    """Whether the text is in the target language. None if it was not checked or cannot be identified."""
