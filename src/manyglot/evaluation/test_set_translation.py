"""The test sentences of many directions, and their translation by one or more processes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import groupby
from types import MappingProxyType
from typing import NamedTuple

from manyglot.corpus.base import Row
from manyglot.corpus.languages import Direction
from manyglot.decoding.translator import Translator
from manyglot.distributed import DistributedContext
from manyglot.evaluation.translation_cache import SentenceSpan, TranslationCache
from manyglot.progress import ProgressReporter, print_status, progress_bar


@dataclass(frozen=True)
class EvaluationSet:
    """The sentences to evaluate: the rows of each direction hold its source and its reference."""

    rows_by_direction: Mapping[Direction, Sequence[Row]]
    zero_shot_directions: frozenset[Direction]
    is_supervision_known: bool = True
    """Whether it is known which directions the system was trained on."""
    model_codes: Mapping[str, str] = field(default_factory=dict)
    """The model's codes of languages that the test text names in another style."""

    def source_texts(self) -> dict[Direction, list[str]]:
        """Return the source sentences of each direction."""
        return source_texts(self.rows_by_direction)


def source_texts(rows_by_direction: Mapping[Direction, Sequence[Row]]) -> dict[Direction, list[str]]:
    """Return the source sentences of each direction."""
    return {direction: [row[direction.source] for row in rows] for direction, rows in rows_by_direction.items()}


class _Block(NamedTuple):
    """Sentences that are translated and cached together."""

    spans: list[SentenceSpan]
    sentence_offset: int
    """Number of sentences in all earlier blocks; sampling is seeded by a sentence's position among all sentences."""
    uses_pivot: bool
    """Whether to translate through the translator's pivot, if it has one; only zero-shot directions do."""

    @property
    def num_sentences(self) -> int:
        return sum(span.stop - span.start for span in self.spans)


def translate_evaluation_set(
    translator: Translator,
    evaluation_set: EvaluationSet,
    cache: TranslationCache | None = None,
    distributed: DistributedContext | None = None,
) -> dict[Direction, list[str]]:
    """Translate all sentences, or with `distributed` this process's share of them, and return the complete directions.

    Cached sentences are not translated again. The result has them too.
    """
    sources = evaluation_set.source_texts()
    outputs = defaultdict(dict, cache.read() if cache else {})
    direct = translator.with_settings(pivot=None) if translator.pivot_code else translator
    if distributed:
        distributed.barrier()  # all processes must read the same cache before dividing the rest
    num_total = sum(map(len, sources.values()))
    if outputs:
        print_status(f"{sum(map(len, outputs.values())):,} of {num_total:,} sentences are already translated.")
    model_codes = evaluation_set.model_codes
    pivoted = frozenset(
        d
        for d in evaluation_set.zero_shot_directions
        if translator.pivot_code not in (None, model_codes.get(d.source, d.source))
    )
    blocks = list(_iter_blocks(sources, pivoted, translator.engine.short_block_size))
    missing = [block for block in blocks if not _is_cached(block, outputs)]
    own_blocks = [block for _, block in distributed.strided_share(missing)] if distributed else missing
    num_missing, num_own = (sum(block.num_sentences for block in some) for some in (missing, own_blocks))
    share = (
        f" with {distributed.world_size} processes (share of the first)"
        if distributed and distributed.world_size > 1
        else ""
    )
    num_done = 0 if share else num_total - num_missing
    with progress_bar(
        f"translating {len(sources)} directions{share}", total=num_own + num_done, done=num_done
    ) as progress:
        for block in own_blocks:
            texts = {span.direction: sources[span.direction][span.start : span.stop] for span in block.spans}
            translated = translate_directions(
                translator if block.uses_pivot else direct, texts, block.sentence_offset, progress, model_codes
            )
            by_span = {span: translated[span.direction] for span in block.spans}
            for span, span_outputs in by_span.items():
                outputs[span.direction].update(enumerate(span_outputs, start=span.start))
            if cache:
                cache.add(by_span)
    return complete_directions(outputs, sources)


def complete_directions(
    outputs: Mapping[Direction, Mapping[int, str]], sources: Mapping[Direction, Sequence[str]]
) -> dict[Direction, list[str]]:
    """Return the outputs of the directions of which every sentence is translated."""
    return {
        direction: [outputs[direction][i] for i in range(len(texts))]
        for direction, texts in sources.items()
        if len(outputs.get(direction, ())) == len(texts)
    }


def _is_cached(block: _Block, outputs: Mapping[Direction, Mapping[int, str]]) -> bool:
    return all(
        span.direction in outputs and outputs[span.direction].keys() >= set(range(span.start, span.stop))
        for span in block.spans
    )


def _iter_blocks(
    sources: Mapping[Direction, Sequence[str]], pivoted: Set[Direction], block_size: int
) -> Iterator[_Block]:
    """Yield blocks of `block_size` sentences, with directions from the same source language together.

    Blocks do not depend on the cache or on the number of processes. The position of a sentence among all sentences does
    not depend on the block size.
    """
    sentence_offset = 0
    ordered = sorted(sources, key=lambda d: (d in pivoted, d.source))
    for uses_pivot, directions in groupby(ordered, key=lambda d: d in pivoted):
        block = _Block([], sentence_offset, uses_pivot)
        for direction in directions:
            start, stop = 0, len(sources[direction])
            while start < stop:
                end = min(stop, start + block_size - block.num_sentences)
                block.spans.append(SentenceSpan(direction, start, end))
                sentence_offset, start = sentence_offset + end - start, end
                if block.num_sentences == block_size:
                    yield block
                    block = _Block([], sentence_offset, uses_pivot)
        if block.spans:
            yield block


def translate_directions(
    translator: Translator,
    sources: Mapping[Direction, Sequence[str]],
    sentence_offset: int = 0,
    progress: ProgressReporter | None = None,
    model_codes: Mapping[str, str] = MappingProxyType({}),
) -> dict[Direction, list[str]]:
    """Translate all directions in one call, so that batches mix target languages and stay full.

    `model_codes` has the model's codes of languages that the directions name in another style.
    """
    texts = [text for texts in sources.values() for text in texts]
    directions = [direction for direction, texts in sources.items() for _ in texts]
    languages, targets = (
        [model_codes.get(code, code) for code in codes]
        for codes in ([direction.source for direction in directions], [direction.target for direction in directions])
    )
    outputs = iter(
        translator.translate(texts, targets, source=languages, sentence_offset=sentence_offset, progress=progress)
    )
    return {direction: [next(outputs) for _ in texts] for direction, texts in sources.items()}
