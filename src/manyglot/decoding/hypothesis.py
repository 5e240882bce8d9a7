"""The result of a search, for all engines."""

from __future__ import annotations

from typing import NamedTuple


class Hypothesis(NamedTuple):
    """A finished translation in subword ids."""

    ids: tuple[int, ...]
    """Subwords, without tags and end symbol."""
    score: float
    """Log-probability, divided by the length to the power of the length penalty."""
