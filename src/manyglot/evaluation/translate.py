"""The test sentences of many directions, in one process or several."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import accumulate, groupby
from typing import NamedTuple, Protocol

from manyglot.corpus.languages import Direction
from manyglot.decoding.translator import Translator
from manyglot.evaluation.kept import Kept
from manyglot.progress import Bar, bar, say

Row = Mapping[str, str]
BLOCKS_AT_ONCE = 4
"""What is translated between two times of writing, in sentences that the engine likes to be given together."""
BLOCKS_EACH = 4
"""Those that fall to each of several processes at least, so that all have about as much to do."""


class Processes(Protocol):
    """This process among those that translate together."""

    @property
    def size(self) -> int:
        """How many there are."""

    def share(self, things: Sequence[_Block]) -> list[tuple[int, _Block]]:
        """Those that fall to this one, with their numbers."""

    def wait(self) -> None:
        """Until all are here."""


@dataclass(frozen=True)
class Chosen:
    """What is translated: the rows of each direction."""

    rows: Mapping[Direction, Sequence[Row]]
    zero_shot: frozenset[Direction]

    def sources(self) -> dict[Direction, list[str]]:
        """The sentences to translate."""
        return sources_of(self.rows)


def sources_of(rows: Mapping[Direction, Sequence[Row]]) -> dict[Direction, list[str]]:
    """The sentences of each direction to translate."""
    return {direction: [row[direction.source] for row in those] for direction, those in rows.items()}


class _Block(NamedTuple):
    """Directions that are translated together."""

    directions: list[Direction]
    first: int
    """The place of its first sentence among all, on which depends what is drawn at random."""
    by_way: bool
    """Whether they go by way of another language, where the translator would: those without training do."""


def translate_chosen(
    translator: Translator, chosen: Chosen, kept: Kept | None = None, processes: Processes | None = None
) -> dict[Direction, list[str]]:
    """The outputs of all directions, or of those that fall to this process; what was kept is not translated again."""
    sources = chosen.sources()
    done = kept.read(sources) if kept else {}
    direct = translator.with_settings(via=None) if translator.via else translator
    if processes:
        processes.wait()  # until all have read, for all deal out the same
    if done:
        say(f"{len(done):,} of {len(sources):,} directions are translated already.")
    by_way = frozenset(d for d in chosen.zero_shot if translator.via not in (None, d.source))
    total, before = (sum(len(sources[direction]) for direction in those) for those in (sources, done))
    enough, share = BLOCKS_AT_ONCE * translator.engine.at_once, ""
    several = processes if processes and processes.size > 1 else None
    if several:
        enough = min(enough, (total - before) // (BLOCKS_EACH * several.size))
        share = f" with {several.size} processes, the share of the first"
    blocks = list(_blocks(sources, by_way, done, enough))
    if several:
        blocks = [block for _, block in several.share(blocks)]
        total, before = sum(len(sources[direction]) for block in blocks for direction in block.directions), 0
    with bar(f"translating {len(sources)} directions{share}", total=total, done=before) as progress:
        for block in blocks:
            texts = {direction: sources[direction] for direction in block.directions}
            way = translator if block.by_way else direct
            outputs = translate_directions(way, texts, progress, block.first)
            done |= outputs
            if kept:
                kept.add(outputs, texts)
    return {direction: done[direction] for direction in sources if direction in done}


def _blocks(
    sources: Mapping[Direction, Sequence[str]], by_way: Set[Direction], done: Container[Direction], enough: int
) -> Iterator[_Block]:
    """The directions that are not done, as many together as are enough; those from one language follow one another.

    The place of a sentence among all is the same however they are cut into blocks.
    """
    order = sorted(sources, key=lambda d: (d in by_way, d.source))
    places = dict(zip(order, accumulate((len(sources[d]) for d in order), initial=0), strict=False))
    for (is_done, so), neighbours in groupby(order, key=lambda d: (d in done, d in by_way)):
        block: list[Direction] = []
        for direction in () if is_done else neighbours:
            block.append(direction)
            if sum(len(sources[d]) for d in block) >= enough:
                yield _Block(block, places[block[0]], so)
                block = []
        if block:
            yield _Block(block, places[block[0]], so)


def translate_directions(
    translator: Translator, sources: Mapping[Direction, Sequence[str]], progress: Bar | None = None, first: int = 0
) -> dict[Direction, list[str]]:
    """All directions in one call, so that batches mix target languages and waste nothing."""
    texts = [text for texts in sources.values() for text in texts]
    targets = [direction.target for direction, texts in sources.items() for _ in texts]
    outputs = iter(translator.translate(texts, targets, progress, first))
    return {direction: [next(outputs) for _ in texts] for direction, texts in sources.items()}
