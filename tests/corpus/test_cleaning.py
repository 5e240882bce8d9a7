from __future__ import annotations

from collections import Counter

from manyglot.corpus.cleaning import CleaningSettings, clean


def test_long_sentences_are_counted_and_missing_ones_are_not() -> None:
    dropped: Counter[str] = Counter()
    kept = list(clean([(0, [5]), (1, []), (2, [5, 6, 7]), (3, [8, 9])], CleaningSettings(max_subwords=2), dropped))
    assert kept == [(0, [5]), (3, [8, 9])]
    assert dropped == {"too long": 1}
