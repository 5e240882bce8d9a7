"""The language check: translations in a wrong language are replaced by the best alternative that is in the right one.

A model that drifts mostly answers in a language of its training, and the right one may be among the hypotheses of a
wider beam. Where none of them is, the output is kept and marked. What cannot be told is not judged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from manyglot.decoding.translation import Translation
from manyglot.langid.identifier import Identify

SearchWider = Callable[[Sequence[int], int], list[list[Translation]]]
"""All hypotheses of some sentences, told by their places, with a beam of a given width."""

WIDEST_BEAM = 10
"""The beam of the second search, unless twice that of the first is wider."""


@dataclass
class Tally:
    """How many translations into a language were checked."""

    checked: int = 0
    off_target: int = 0
    """In another language at first."""
    replaced: int = 0
    """By an alternative that is in the right one."""


class LanguageCheck:
    """Judges translations, and asks for more where they are in the wrong language."""

    def __init__(self, identify: Identify) -> None:
        self.identify = identify
        self.tally: dict[str, Tally] = {}
        """What it has found so far, by target language."""

    def mend(
        self, found: Sequence[Sequence[Translation]], targets: Sequence[str], beam: int, search_wider: SearchWider
    ) -> list[list[Translation]]:
        """Mark the best translation of each sentence, or put one in front that is in the target language."""
        judged = self._judge([each[0].text for each in found], targets)
        mended = [[replace(each[0], on_target=on), *each[1:]] for each, on in zip(found, judged, strict=True)]
        rows = [row for row, on_target in enumerate(judged) if on_target is False]
        wider = search_wider(rows, max(WIDEST_BEAM, 2 * beam)) if rows else []
        texts = [each.text for alternatives in wider for each in alternatives]
        repeated = [targets[row] for row, alternatives in zip(rows, wider, strict=True) for _ in alternatives]
        good = iter(self._judge(texts, repeated))
        replaced = set()
        for row, alternatives in zip(rows, wider, strict=True):
            fitting = [each for each in alternatives if next(good)]
            if fitting:
                rest = [each for each in found[row] if each.text != fitting[0].text]
                mended[row] = [replace(fitting[0], on_target=True), *rest]
                replaced.add(row)
        self._count(targets, judged, replaced)
        return mended

    def summary(self) -> Iterator[str]:
        """A line for each language into which something went wrong."""
        for code, tally in sorted(self.tally.items()):
            if tally.off_target:
                left = tally.off_target - tally.replaced
                yield (
                    f"{tally.off_target:,} of {tally.checked:,} outputs not in {code}: "
                    f"{tally.replaced:,} replaced by an alternative, {left:,} marked (on_target, in tsv and jsonl)."
                )

    def _judge(self, texts: Sequence[str], targets: Sequence[str]) -> list[bool | None]:
        """Whether each text is in its target language; None where that cannot be told."""
        told = self.identify(texts, targets)
        return [code == target if code else None for code, target in zip(told, targets, strict=True)]

    def _count(self, targets: Sequence[str], judged: Sequence[bool | None], replaced: set[int]) -> None:
        for row, (code, on_target) in enumerate(zip(targets, judged, strict=True)):
            tally = self.tally.setdefault(code, Tally())
            tally.checked += 1
            tally.off_target += on_target is False
            tally.replaced += row in replaced
