"""The off-target filter replaces translations in a wrong language by the best alternative in the target language.

An off-target output is usually in another language of the training data, and a wider beam often holds a hypothesis in
the right one. If it holds none, the filter keeps the output and marks it. It accepts outputs that it cannot identify.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from manyglot.decoding.scored_translation import Translation
from manyglot.errors import ManyglotError
from manyglot.langid.identifier import OffTargetDetector

WiderSearch = Callable[[Sequence[int], int], list[list[Translation]]]
"""Returns all hypotheses of some sentences, given their rows and a beam size."""

MIN_RETRY_BEAM_SIZE = 10
"""Minimum beam size of the second search, which otherwise doubles that of the first."""


@dataclass
class OffTargetCounts:
    """Counts of translations into one language."""

    num_checked: int = 0
    num_off_target: int = 0
    """Translations whose first output was in another language."""
    num_replaced: int = 0
    """Off-target translations that were replaced by an alternative."""


class OffTargetFilter:
    """Identifies the language of translations and searches again for those that are off target."""

    def __init__(self, identify: OffTargetDetector) -> None:
        self.identify = identify
        self.counts_by_language: dict[str, OffTargetCounts] = {}
        """Counts so far, by target language."""

    def correct(
        self,
        hypotheses: Sequence[Sequence[Translation]],
        targets: Sequence[str],
        beam_size: int,
        search_wider: WiderSearch,
    ) -> list[list[Translation]]:
        """Mark the best translation of each sentence as on or off target, or put an on-target alternative before it."""
        on_target = self._on_target([n_best[0].text for n_best in hypotheses], targets)
        corrected = [
            [replace(n_best[0], on_target=on), *n_best[1:]] for n_best, on in zip(hypotheses, on_target, strict=True)
        ]
        off_target_rows = [row for row, on in enumerate(on_target) if on is False]
        retry_beam_size = max(MIN_RETRY_BEAM_SIZE, 2 * beam_size)
        alternatives = search_wider(off_target_rows, retry_beam_size) if off_target_rows else []
        pairs = list(zip(off_target_rows, alternatives, strict=True))
        texts = [alternative.text for _, n_best in pairs for alternative in n_best]
        text_targets = [targets[row] for row, n_best in pairs for _ in n_best]
        alternative_on_target = iter(self._on_target(texts, text_targets))
        replaced_rows = set()
        for row, n_best in pairs:
            replacements = [alternative for alternative in n_best if next(alternative_on_target)]
            if replacements:
                rest = [hypothesis for hypothesis in hypotheses[row] if hypothesis.text != replacements[0].text]
                corrected[row] = [replace(replacements[0], on_target=True), *rest]
                replaced_rows.add(row)
        self._count(targets, on_target, replaced_rows)
        return corrected

    def summary_lines(self) -> Iterator[str]:
        """Yield a line for each target language that had off-target outputs."""
        for code, counts in sorted(self.counts_by_language.items()):
            if counts.num_off_target:
                num_marked = counts.num_off_target - counts.num_replaced
                yield (
                    f"{counts.num_off_target:,} of {counts.num_checked:,} outputs were not in {code}. "
                    f"Replaced by an alternative: {counts.num_replaced:,}. "
                    f"Marked (on_target in tsv and jsonl): {num_marked:,}."
                )

    def _on_target(self, texts: Sequence[str], targets: Sequence[str]) -> list[bool | None]:
        """Return whether each text is in its target language, or None if its language cannot be identified."""
        codes = self.identify(texts, targets)
        if not isinstance(codes, Sequence) or len(codes) != len(texts):
            raise ManyglotError(
                f"The off-target filter should return a list of {len(texts)} language codes, one per text; got "
                f"{codes!r:.60}. Correct its function."
            )
        return [code == target if code else None for code, target in zip(codes, targets, strict=True)]

    def _count(self, targets: Sequence[str], on_target: Sequence[bool | None], replaced_rows: set[int]) -> None:
        for row, (code, on) in enumerate(zip(targets, on_target, strict=True)):
            counts = self.counts_by_language.setdefault(code, OffTargetCounts())
            counts.num_checked += 1
            counts.num_off_target += on is False
            counts.num_replaced += row in replaced_rows
