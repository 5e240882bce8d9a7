"""The translations of some texts, and the warning about texts that may be translated incompletely."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

from manyglot.decoding.scored_translation import Translation
from manyglot.decoding.source_text import SourceText
from manyglot.errors import TranslationWarning

_MAX_TEXTS_IN_WARNING = 3


@dataclass(frozen=True)
class TranslatedTexts:
    """The translations of some texts."""

    sources: list[SourceText]
    n_best: list[list[Translation]]
    """The n best translations of each text, best first."""

    @property
    def num_sentences(self) -> int:
        """The number of sentences that were translated."""
        return sum(len(source.sentences) for source in self.sources)


def warn_if_incomplete(sources: Sequence[SourceText], num_earlier_texts: int = 0, stacklevel: int = 2) -> None:
    """Warn about texts that may be translated incompletely."""
    messages = [
        f"Text {number} {warning.message}"
        for number, source in enumerate(sources, start=num_earlier_texts + 1)
        for warning in source.warnings
    ]
    if messages:
        num_more = len(messages) - _MAX_TEXTS_IN_WARNING
        more = f" There are {num_more:,} more warnings; translate_n_best returns all." if num_more > 0 else ""
        message = " ".join(messages[:_MAX_TEXTS_IN_WARNING]) + more
        warnings.warn(message, TranslationWarning, stacklevel=stacklevel)
