"""The test sentences of many directions, and their translation by one or more processes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

from manyglot.corpus.base import Row
from manyglot.corpus.languages import Direction
from manyglot.decoding.translator import Translator
from manyglot.distributed import DistributedContext
from manyglot.evaluation.translation_cache import TranslationCache
from manyglot.progress import ProgressReporter, print_status, progress_bar

MIN_BLOCK_SENTENCES = 4096
"""Minimum number of sentences that are translated and cached together; the engine may prefer more."""


@dataclass(frozen=True)
class EvaluationSet:
    """The sentences to evaluate: the rows of each direction hold its source and its reference."""

    rows_by_direction: Mapping[Direction, Sequence[Row]]
    zero_shot_directions: frozenset[Direction]
    is_supervision_known: bool = True
    """Whether it is known which directions the system was trained on."""

    def source_texts(self) -> dict[Direction, list[str]]:
        """Return the source sentences of each direction."""
        return source_texts(self.rows_by_direction)


def source_texts(rows_by_direction: Mapping[Direction, Sequence[Row]]) -> dict[Direction, list[str]]:
    """Return the source sentences of each direction."""
    return {direction: [row[direction.source] for row in rows] for direction, rows in rows_by_direction.items()}


class _DirectionBlock(NamedTuple):
    """Directions that are translated and cached together."""

    directions: list[Direction]
    sentence_offset: int
    """Number of sentences in all earlier blocks; sampling is seeded by a sentence's position among all sentences."""
    uses_pivot: bool
    """Whether to translate through the translator's pivot, if it has one; only zero-shot directions do."""


def translate_evaluation_set(
    translator: Translator,
    evaluation_set: EvaluationSet,
    cache: TranslationCache | None = None,
    distributed: DistributedContext | None = None,
) -> dict[Direction, list[str]]:
    """Translate all directions, or with `distributed` this process's share of them.

    Cached directions are not translated again. The result holds them too.
    """
    sources = evaluation_set.source_texts()
    outputs = cache.read() if cache else {}
    direct = translator.with_settings(pivot=None) if translator.pivot_code else translator
    if distributed:
        distributed.barrier()  # all processes must read the same cache before dividing the rest
    if outputs:
        print_status(f"{len(outputs):,} of {len(sources):,} directions are already translated.")
    pivoted = frozenset(d for d in evaluation_set.zero_shot_directions if translator.pivot_code not in (None, d.source))
    blocks = list(_direction_blocks(sources, pivoted, max(MIN_BLOCK_SENTENCES, translator.engine.preferred_block_size)))
    missing = [block for block in blocks if not outputs.keys() >= set(block.directions)]
    own_blocks = [block for _, block in distributed.strided_share(missing)] if distributed else missing
    num_total, num_own = (
        sum(len(sources[d]) for block in some_blocks for d in block.directions) for some_blocks in (blocks, own_blocks)
    )
    share = (
        f" with {distributed.world_size} processes (share of the first)"
        if distributed and distributed.world_size > 1
        else ""
    )
    num_done = 0 if share else num_total - num_own
    with progress_bar(
        f"translating {len(sources)} directions{share}", total=num_own + num_done, done=num_done
    ) as progress:
        for block in own_blocks:
            texts = {direction: sources[direction] for direction in block.directions}
            block_outputs = translate_directions(
                translator if block.uses_pivot else direct, texts, block.sentence_offset, progress
            )
            outputs |= block_outputs
            if cache:
                cache.add(block_outputs)
    return {direction: outputs[direction] for direction in sources if direction in outputs}


def _direction_blocks(
    sources: Mapping[Direction, Sequence[str]], pivoted: Set[Direction], min_sentences: int
) -> Iterator[_DirectionBlock]:
    """Yield blocks of at least `min_sentences` sentences, with directions from the same source language together.

    Blocks do not depend on the cache or on the number of processes. The position of a sentence among all sentences does
    not depend on the block size.
    """
    num_before = 0
    ordered = sorted(sources, key=lambda d: (d in pivoted, d.source))
    for uses_pivot, directions in groupby(ordered, key=lambda d: d in pivoted):
        block, sentence_offset = [], num_before
        for direction in directions:
            block.append(direction)
            num_before += len(sources[direction])
            if num_before - sentence_offset >= min_sentences:
                yield _DirectionBlock(block, sentence_offset, uses_pivot)
                block, sentence_offset = [], num_before
        if block:
            yield _DirectionBlock(block, sentence_offset, uses_pivot)


def translate_directions(
    translator: Translator,
    sources: Mapping[Direction, Sequence[str]],
    sentence_offset: int = 0,
    progress: ProgressReporter | None = None,
) -> dict[Direction, list[str]]:
    """Translate all directions in one call, so that batches mix target languages and stay full."""
    texts = [text for texts in sources.values() for text in texts]
    targets = [direction.target for direction, texts in sources.items() for _ in texts]
    outputs = iter(translator.translate(texts, targets, sentence_offset=sentence_offset, progress=progress))
    return {direction: [next(outputs) for _ in texts] for direction, texts in sources.items()}
