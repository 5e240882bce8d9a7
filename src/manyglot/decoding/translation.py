"""A translation and what is known of it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Translation:
    """A sentence that the model has written."""

    text: str
    score: float
    """Its log-probability, divided by its length in subwords, the end included, to the power of the length penalty."""
    on_target: bool | None = None
    """Whether it is in the target language; None where that was not asked or cannot be told."""
