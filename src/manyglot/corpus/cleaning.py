"""Drop unsuitable sentences and pairs from the training and dev text, and record why. Test text is never cleaned.

Dropping a sentence drops every pair that contains it, as the pair filter of the paper does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum

import numpy as np
import numpy.typing as npt
from pydantic import Field

from manyglot.config.base_settings import MAX_COUNT, Settings
from manyglot.corpus.languages import base_language
from manyglot.corpus.scripts import language_script_code, script_ratio
from manyglot.langid.py3langid import load_py3langid

IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]


class CleaningSettings(Settings):
    """What to drop from the training and dev text. The defaults follow the paper."""

    max_subwords: int = Field(100, ge=1, le=MAX_COUNT)
    """Drop sentences with more subwords than this."""
    min_script_ratio: float | None = Field(None, gt=0, le=1)
    """Drop sentences with less than this share of their letters, such as 0.5, in the script of their language."""
    filter_by_language: bool = False
    """Drop sentences of 30 or more characters that py3langid identifies as another language. This checks about
    10,000 sentences per second."""
    max_length_ratio: float | None = Field(None, ge=1, le=MAX_COUNT)
    """Drop pairs whose length ratio (subwords of the longer side / subwords of the shorter side) is above this, such as
    3."""
    deduplicate_pairs: bool = False
    """Keep one copy of each repeated sentence pair."""
    drop_heldout_overlap: bool = False
    """Drop training pairs with a sentence that also occurs in the dev or test text of its language."""


MIN_LANGID_CHARACTERS = 30
"""Shorter sentences are never dropped for their language, because identification is unreliable."""
NO_CLEANING = CleaningSettings(max_subwords=MAX_COUNT)
"""Settings that drop nothing, for test text."""
MAX_DROPPED_EXAMPLES = 5
"""Examples of dropped text to store per split, language or pair, and reason."""


class DropReason(StrEnum):
    """Why cleaning dropped a sentence or a pair; datasets store these values."""

    NO_SUBWORDS = "no_subwords"
    TOO_LONG = "too_long"
    WRONG_SCRIPT = "wrong_script"
    WRONG_LANGUAGE = "wrong_language"
    LENGTH_RATIO = "length_ratio"
    IN_DEV_OR_TEST = "in_dev_or_test"
    DUPLICATE = "duplicate"


DroppedByReason = dict[DropReason, IntArray]
"""Indices of the dropped sentences or pairs by reason."""


def find_clean_sentences(
    texts: Sequence[str], lengths: IntArray, code: str, settings: CleaningSettings
) -> tuple[BoolArray, DroppedByReason]:
    """Return a mask of the sentences to keep, and the indices of the dropped ones by reason.

    An empty sentence means that the row lacks this language. It is not kept, but it does not count as dropped.
    """
    present = np.fromiter(map(bool, texts), dtype=np.bool_, count=len(texts))
    reasons: dict[DropReason, BoolArray] = {
        DropReason.NO_SUBWORDS: lengths == 0,
        DropReason.TOO_LONG: lengths > settings.max_subwords,
    }
    script = language_script_code(code)
    if settings.min_script_ratio is not None and script is not None:
        min_ratio = settings.min_script_ratio
        is_wrong_script = (script_ratio(text, script) < min_ratio for text in texts)
        reasons[DropReason.WRONG_SCRIPT] = np.fromiter(is_wrong_script, dtype=np.bool_)
    if settings.filter_by_language and base_language(code) in load_py3langid().nb_classes:
        is_wrong_language = (_is_in_another_language(text, base_language(code)) for text in texts)
        reasons[DropReason.WRONG_LANGUAGE] = np.fromiter(is_wrong_language, dtype=np.bool_)
    return _apply_filters(present, reasons)


def _is_in_another_language(text: str, language: str) -> bool:
    return len(text) >= MIN_LANGID_CHARACTERS and load_py3langid().classify(text)[0] != language


def find_clean_pairs(
    lengths: tuple[IntArray, IntArray],
    hashes: tuple[IntArray, IntArray] | None,
    in_heldout: tuple[BoolArray, BoolArray] | None,
    settings: CleaningSettings,
) -> tuple[BoolArray, DroppedByReason]:
    """Return a mask of the sentence pairs to keep, and the indices of the dropped ones by reason.

    Each argument has one array per side. `hashes` identifies sentences and enables deduplication; `in_heldout` marks
    sentences that occur in dev or test.
    """
    reasons: dict[DropReason, BoolArray] = {}
    if settings.max_length_ratio is not None:
        reasons[DropReason.LENGTH_RATIO] = np.maximum(*lengths) > settings.max_length_ratio * np.minimum(*lengths)
    if in_heldout is not None:
        reasons[DropReason.IN_DEV_OR_TEST] = in_heldout[0] | in_heldout[1]
    if hashes is not None:
        repeated = np.ones(len(hashes[0]), dtype=np.bool_)
        pair_hashes = np.stack(hashes, axis=1)
        repeated[np.unique(pair_hashes, axis=0, return_index=True)[1]] = False
        reasons[DropReason.DUPLICATE] = repeated
    return _apply_filters(np.ones(len(lengths[0]), dtype=np.bool_), reasons)


def _apply_filters(kept: BoolArray, reasons: Mapping[DropReason, BoolArray]) -> tuple[BoolArray, DroppedByReason]:
    """Apply the filters in order; each item is counted under the first reason that applies."""
    dropped: DroppedByReason = {}
    for reason, applies in reasons.items():
        if len(indices := np.flatnonzero(kept & applies)):
            dropped[reason] = indices
        kept = kept & ~applies
    return kept, dropped
