"""The test sentences of many directions, translated source by source, in one process or several."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from manyglot.corpus.languages import Direction
from manyglot.decoding.translator import Translator
from manyglot.evaluation.kept import Kept
from manyglot.progress import Bar, bar, say

Row = Mapping[str, str]
BLOCKS_AT_ONCE = 4
"""What is translated between two times of writing, in sentences that the engine likes to be given together."""


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
        return {direction: [row[direction.source] for row in rows] for direction, rows in self.rows.items()}


class _Block(NamedTuple):
    """Directions from one language that are translated together."""

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
    blocks = list(_blocks(sources, by_way, BLOCKS_AT_ONCE * translator.engine.at_once))
    missing = [each for each in blocks if not all(direction in done for direction in each.directions)]
    mine = [block for _, block in processes.share(missing)] if processes else missing
    total, todo = (sum(len(sources[d]) for block in those for d in block.directions) for those in (blocks, mine))
    share = f" with {processes.size} processes, the share of the first" if processes and processes.size > 1 else ""
    before = 0 if share else total - todo
    with bar(f"translating {len(sources)} directions{share}", total=todo + before, done=before) as progress:
        for block in mine:
            outputs = _translate(translator if block.by_way else direct, block, sources, progress)
            done |= outputs
            if kept:
                kept.add(outputs, sources)
    return {direction: done[direction] for direction in sources if direction in done}


def _blocks(sources: Mapping[Direction, Sequence[str]], by_way: frozenset[Direction], least: int) -> Iterator[_Block]:
    """Directions from one language that are translated together: all of them, or as many as are enough for a while."""
    first = 0
    for start_and_way in dict.fromkeys((direction.source, direction in by_way) for direction in sources):
        block: list[Direction] = []
        start = first
        for direction in [d for d in sources if (d.source, d in by_way) == start_and_way]:
            block.append(direction)
            first += len(sources[direction])
            if first - start >= least:
                yield _Block(block, start, start_and_way[1])
                block, start = [], first
        if block:
            yield _Block(block, start, start_and_way[1])


def _translate(
    translator: Translator, block: _Block, sources: Mapping[Direction, Sequence[str]], progress: Bar
) -> dict[Direction, list[str]]:
    """A sentence with all its targets side by side, so that it is read once."""
    longest = max(len(sources[direction]) for direction in block.directions)
    each = [(d, i) for i in range(longest) for d in block.directions if i < len(sources[d])]
    texts, targets = [sources[d][i] for d, i in each], [d.target for d, _ in each]
    outputs: dict[Direction, list[str]] = {direction: [] for direction in block.directions}
    for (direction, _), output in zip(each, translator.translate(texts, targets, progress, block.first), strict=True):
        outputs[direction].append(output)
    return outputs


def translate_directions(
    translator: Translator, tests: Mapping[Direction, Sequence[Mapping[str, str]]], progress: Bar | None = None
) -> dict[Direction, list[str]]:
    """All directions in one call, so that batches mix target languages and waste nothing."""
    texts = [row[direction.source] for direction, test in tests.items() for row in test]
    targets = [direction.target for direction, test in tests.items() for _ in test]
    outputs = iter(translator.translate(texts, targets, progress))
    return {direction: [next(outputs) for _ in test] for direction, test in tests.items()}
