"""The test sentences of many directions, in one process or several."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

from manyglot.corpus.languages import Direction
from manyglot.decoding.translator import Translator
from manyglot.distributed import DistributedContext
from manyglot.evaluation.kept import Kept
from manyglot.progress import Bar, bar, say

Row = Mapping[str, str]
ENOUGH = 4096
"""Sentences to translate together, or as many as the engine likes if those are more; then they are kept."""


@dataclass(frozen=True)
class EvaluationSet:
    """The sentences to evaluate: the rows of each direction, which hold source and reference."""

    rows: Mapping[Direction, Sequence[Row]]
    zero_shot: frozenset[Direction]

    def sources(self) -> dict[Direction, list[str]]:
        """Return the source sentences of each direction."""
        return sources_of(self.rows)


def sources_of(rows: Mapping[Direction, Sequence[Row]]) -> dict[Direction, list[str]]:
    """The sentences of each direction to translate."""
    return {direction: [row[direction.source] for row in those] for direction, those in rows.items()}


class _Block(NamedTuple):
    """Directions that are translated together."""

    directions: list[Direction]
    offset: int
    """The number of sentences in the blocks before: what is sampled depends on a sentence's place among all."""
    by_way: bool
    """Whether they go by way of another language, where the translator would: those without training do."""


def translate_evaluation_set(
    translator: Translator,
    evaluation_set: EvaluationSet,
    kept: Kept | None = None,
    distributed: DistributedContext | None = None,
) -> dict[Direction, list[str]]:
    """The outputs of all directions, or of those that fall to this process; what was kept is not translated again."""
    sources = evaluation_set.sources()
    done = kept.read() if kept else {}
    direct = translator.with_settings(via=None) if translator.via else translator
    if distributed:
        distributed.wait()  # until all have read, for all deal out the same
    if done:
        say(f"{len(done):,} of {len(sources):,} directions are translated already.")
    by_way = frozenset(d for d in evaluation_set.zero_shot if translator.via not in (None, d.source))
    blocks = list(_blocks(sources, by_way, max(ENOUGH, translator.engine.at_once)))
    missing = [each for each in blocks if not done.keys() >= set(each.directions)]
    mine = [block for _, block in distributed.share(missing)] if distributed else missing
    total, todo = (sum(len(sources[d]) for block in those for d in block.directions) for those in (blocks, mine))
    share = (
        f" with {distributed.size} processes, the share of the first" if distributed and distributed.size > 1 else ""
    )
    before = 0 if share else total - todo
    with bar(f"translating {len(sources)} directions{share}", total=todo + before, done=before) as progress:
        for block in mine:
            texts = {direction: sources[direction] for direction in block.directions}
            outputs = translate_directions(translator if block.by_way else direct, texts, block.offset, progress)
            done |= outputs
            if kept:
                kept.add(outputs)
    return {direction: done[direction] for direction in sources if direction in done}


def _blocks(sources: Mapping[Direction, Sequence[str]], by_way: Set[Direction], enough: int) -> Iterator[_Block]:
    """As many directions as are enough, those from one language one after another.

    They depend neither on what is kept nor on the processes, and the place of a sentence among all not on the blocks.
    """
    place = 0
    for so, neighbours in groupby(sorted(sources, key=lambda d: (d in by_way, d.source)), key=lambda d: d in by_way):
        block, offset = [], place
        for direction in neighbours:
            block.append(direction)
            place += len(sources[direction])
            if place - offset >= enough:
                yield _Block(block, offset, so)
                block, offset = [], place
        if block:
            yield _Block(block, offset, so)


def translate_directions(
    translator: Translator, sources: Mapping[Direction, Sequence[str]], offset: int = 0, progress: Bar | None = None
) -> dict[Direction, list[str]]:
    """All directions in one call, so that batches mix target languages and waste nothing."""
    texts = [text for texts in sources.values() for text in texts]
    targets = [direction.target for direction, texts in sources.items() for _ in texts]
    outputs = iter(translator.translate(texts, targets, offset=offset, progress=progress))
    return {direction: [next(outputs) for _ in texts] for direction, texts in sources.items()}
