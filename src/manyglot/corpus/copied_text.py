"""Find languages whose text is a copy of another language's text, while the corpus is read for another purpose."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import combinations

from manyglot.corpus.base import Row
from manyglot.corpus.languages import english_language_name
from manyglot.langid.variants import language_label

MIN_COPIED_SHARE, MIN_COPIED_ROWS = 0.5, 20
"""Report two languages if at least this share of their sentences, and this many, are the same. Names and numbers are
often the same, but rarely so many."""


class CopiedTextCounter:
    """Counts the rows in which two languages have the same sentence."""

    def __init__(self) -> None:
        self._num_sentences: Counter[str] = Counter()
        self._num_copied: Counter[tuple[str, str]] = Counter()

    def count(self, rows: Iterable[Row]) -> Iterator[Row]:
        """Count the rows, and pass them through."""
        for row in rows:
            self._num_sentences.update(row.keys())
            if len(set(row.values())) < len(row):
                self._num_copied.update(pair for pair in combinations(sorted(row), 2) if row[pair[0]] == row[pair[1]])
            yield row

    def add(self, other: CopiedTextCounter) -> None:
        """Add the counts of other rows."""
        self._num_sentences.update(other._num_sentences)
        self._num_copied.update(other._num_copied)

    def warnings(self) -> Iterator[str]:
        """Yield a message for each pair of languages with the same text, except variants such as hr and sr."""
        for (first, second), num_copied in sorted(self._num_copied.items()):
            share = num_copied / min(self._num_sentences[first], self._num_sentences[second])
            is_same_language = language_label(first, True) == language_label(second, True)
            if num_copied >= MIN_COPIED_ROWS and share >= MIN_COPIED_SHARE and not is_same_language:
                yield (
                    f"{share:.0%} of the training sentences in {english_language_name(first)} ({first}) and "
                    f"{english_language_name(second)} ({second}) are the same. Check both files, for example with "
                    f"`manyglot corpus inspect`."
                )
