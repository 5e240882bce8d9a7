"""Which sentences and pairs are left out of training and dev, and the count of each reason; test text is never touched.

A sentence that is left out takes every pair it is part of with it, as the paper's filter of pairs does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum

import numpy as np
import numpy.typing as npt
from pydantic import Field

from manyglot.config.settings import Settings
from manyglot.corpus.languages import primary
from manyglot.corpus.scripts import script_of, share_in_script
from manyglot.langid.py3langid import load_py3langid

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


class CleaningSettings(Settings):
    """What is left out of training and dev; by default what the paper leaves out."""

    max_subwords: int = Field(100, ge=1)
    """Leave out sentences of more subwords than this."""
    min_script: float | None = Field(None, gt=0, le=1)
    """Leave out sentences with a smaller share of letters in their language's script, such as 0.5."""
    right_language: bool = False
    """Leave out sentences of 30 characters or more that py3langid takes for another language; slow, 10,000 a second."""
    max_ratio: float | None = Field(None, ge=1)
    """Leave out pairs of which one side has more than this many times the subwords of the other, such as 3."""
    deduplicate: bool = False
    """Keep one of several equal pairs of sentences."""
    drop_overlap: bool = False
    """Leave out training pairs with a sentence that is in the dev or test text of its language."""


LONG_ENOUGH = 30
"""Characters from which on the language of a sentence can be told."""
NOTHING = CleaningSettings(max_subwords=2**31)
"""For test text."""


SHOWN = 5
"""Examples that are kept of what was left out, for each place and reason."""


class DropReason(StrEnum):
    """Why cleaning leaves out a sentence or a pair, as a dataset stores it."""

    NO_SUBWORDS = "no_subwords"
    TOO_LONG = "too_long"
    WRONG_SCRIPT = "wrong_script"
    WRONG_LANGUAGE = "wrong_language"
    LENGTH_RATIO = "length_ratio"
    IN_DEV_OR_TEST = "in_dev_or_test"
    DUPLICATE = "duplicate"


Dropped = dict[DropReason, Ints]
"""For each reason, the numbers of what was left out for it."""


def keep_sentences(texts: Sequence[str], lengths: Ints, code: str, settings: CleaningSettings) -> tuple[Mask, Dropped]:
    """Which sentences of a language are worth learning from, and why others are left out.

    An empty one is a language without this row, not a fault, and not counted.
    """
    there = np.fromiter(map(bool, texts), dtype=np.bool_, count=len(texts))
    reasons: dict[DropReason, Mask] = {
        DropReason.NO_SUBWORDS: lengths == 0,
        DropReason.TOO_LONG: lengths > settings.max_subwords,
    }
    script = script_of(code)
    if settings.min_script is not None and script is not None:
        least = settings.min_script
        is_wrong = (share_in_script(text, script) < least for text in texts)
        reasons[DropReason.WRONG_SCRIPT] = np.fromiter(is_wrong, dtype=np.bool_)
    if settings.right_language and primary(code) in load_py3langid().nb_classes:
        is_foreign = (_is_foreign(text, primary(code)) for text in texts)
        reasons[DropReason.WRONG_LANGUAGE] = np.fromiter(is_foreign, dtype=np.bool_)
    return _sift(there, reasons)


def _is_foreign(text: str, language: str) -> bool:
    return len(text) >= LONG_ENOUGH and load_py3langid().classify(text)[0] != language


def keep_pairs(
    lengths: tuple[Ints, Ints],
    hashes: tuple[Ints, Ints] | None,
    known: tuple[Mask, Mask] | None,
    settings: CleaningSettings,
) -> tuple[Mask, Dropped]:
    """Which pairs of sentences are worth learning from, by what is known of their two sides.

    `hashes` are there if equal pairs are to be found, `known` says which sentences are in dev or test.
    """
    reasons: dict[DropReason, Mask] = {}
    if settings.max_ratio is not None:
        reasons[DropReason.LENGTH_RATIO] = np.maximum(*lengths) > settings.max_ratio * np.minimum(*lengths)
    if known is not None:
        reasons[DropReason.IN_DEV_OR_TEST] = known[0] | known[1]
    if hashes is not None:
        repeated = np.ones(len(hashes[0]), dtype=np.bool_)
        both = np.stack(hashes, axis=1)
        repeated[np.unique(both, axis=0, return_index=True)[1]] = False
        reasons[DropReason.DUPLICATE] = repeated
    return _sift(np.ones(len(lengths[0]), dtype=np.bool_), reasons)


def _sift(kept: Mask, reasons: Mapping[DropReason, Mask]) -> tuple[Mask, Dropped]:
    """Take the reasons one after the other; each thing is counted under the first that applies."""
    dropped: Dropped = {}
    for reason, applies in reasons.items():
        if len(numbers := np.flatnonzero(kept & applies)):
            dropped[reason] = numbers
        kept = kept & ~applies
    return kept, dropped
