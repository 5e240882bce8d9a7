from __future__ import annotations

import numpy as np

from manyglot.corpus.cleaning import CleaningSettings, keep


def test_empty_and_long_sentences_are_left_out_and_the_long_ones_counted() -> None:
    kept, dropped = keep(np.array([3, 0, 5, 6, 60, 1]), CleaningSettings(max_subwords=5))
    assert kept.tolist() == [True, False, True, False, False, True]
    assert dropped == {"too long": 2}


def test_nothing_is_counted_where_nothing_is_left_out() -> None:
    assert keep(np.array([1, 2]), CleaningSettings())[1] == {}
