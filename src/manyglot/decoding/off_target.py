"""The off-target filter replaces translations in a wrong language by the best alternative in the target language.

A model that goes off target mostly writes a language of its training, and a wider beam often holds a hypothesis in the
right one. Where it holds none, the filter keeps the output and marks it. It leaves alone what cannot be identified.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from manyglot.decoding.translation import Translation

Identify = Callable[[Sequence[str], Sequence[str]], Sequence[str]]
"""Identifies the language of texts, given their target languages. It returns the target's code for a text in that
language, another code for a text in another, and an empty string for text it cannot identify, such as a few letters."""
SearchWider = Callable[[Sequence[int], int], list[list[Translation]]]
"""Returns all hypotheses of some sentences, given their rows and the width of the beam."""

WIDEST_BEAM = 10
"""The beam of the second search, unless twice that of the first is wider."""


@dataclass
class OffTargetCounts:
    """Counts of the translations into one language."""

    checked: int = 0
    off_target: int = 0
    """Those whose first output was in another language."""
    replaced: int = 0
    """Those of them that an alternative in the target language replaced."""


class OffTargetFilter:
    """Identifies the language of translations, and searches again where it is not the target language."""

    def __init__(self, identify: Identify) -> None:
        self.identify = identify
        self.counts: dict[str, OffTargetCounts] = {}
        """Counts so far, by target language."""

    def correct(
        self, hypotheses: Sequence[Sequence[Translation]], targets: Sequence[str], beam: int, search_wider: SearchWider
    ) -> list[list[Translation]]:
        """Mark the best translation of each sentence, or put an alternative in the target language before it."""
        on_target = self._on_target([each[0].text for each in hypotheses], targets)
        corrected = [
            [replace(each[0], on_target=on), *each[1:]] for each, on in zip(hypotheses, on_target, strict=True)
        ]
        rows = [row for row, on in enumerate(on_target) if on is False]
        wider = search_wider(rows, max(WIDEST_BEAM, 2 * beam)) if rows else []
        texts = [each.text for alternatives in wider for each in alternatives]
        repeated = [targets[row] for row, alternatives in zip(rows, wider, strict=True) for _ in alternatives]
        wider_on_target = iter(self._on_target(texts, repeated))
        replaced = set()
        for row, alternatives in zip(rows, wider, strict=True):
            fitting = [each for each in alternatives if next(wider_on_target)]
            if fitting:
                rest = [each for each in hypotheses[row] if each.text != fitting[0].text]
                corrected[row] = [replace(fitting[0], on_target=True), *rest]
                replaced.add(row)
        self._count(targets, on_target, replaced)
        return corrected

    def summary(self) -> Iterator[str]:
        """Yield a line for each target language that had off-target outputs."""
        for code, counts in sorted(self.counts.items()):
            if counts.off_target:
                left = counts.off_target - counts.replaced
                yield (
                    f"{counts.off_target:,} of {counts.checked:,} outputs not in {code}: "
                    f"{counts.replaced:,} replaced by an alternative, {left:,} marked (on_target, in tsv and jsonl)."
                )

    def _on_target(self, texts: Sequence[str], targets: Sequence[str]) -> list[bool | None]:
        """Return whether each text is in its target language; None where its language cannot be identified."""
        codes = self.identify(texts, targets)
        return [code == target if code else None for code, target in zip(codes, targets, strict=True)]

    def _count(self, targets: Sequence[str], on_target: Sequence[bool | None], replaced: set[int]) -> None:
        for row, (code, on) in enumerate(zip(targets, on_target, strict=True)):
            counts = self.counts.setdefault(code, OffTargetCounts())
            counts.checked += 1
            counts.off_target += on is False
            counts.replaced += row in replaced
