"""The input of a search: padded source sentences, and the target language of each output.

Shape letters: R source rows, S source tokens, B outputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class SearchBatch:
    """Sentences for one call of a search. One source may have several outputs."""

    source_RS: Tensor
    """Token ids of the sources with their tags and end symbols, padded."""
    target_language_ids: Sequence[int]
    """Target language id of each output."""
    random_lang_B: Tensor | None = None
    """Random language id of each output, for guidance that uses one."""
    source_rows: Sequence[int] | None = None
    """Source row that each output translates. None means that every row has exactly one output."""
    prefixes: Sequence[Sequence[int]] | None = None
    """Subwords that each output must begin with."""
    sentence_numbers: Sequence[int] | None = None
    """Index of each sentence in the text, which seeds sampling. None counts from 0."""
    num_hypotheses: int | None = None
    """Number of hypotheses to return per output. None returns as many as the beam holds."""
