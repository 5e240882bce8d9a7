"""Scoring of translated directions on all cores. A task has directions into one target language.

These directions share references, which are tokenized and identified once per task.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from math import ceil
from typing import NamedTuple

import numpy as np

from manyglot.corpus.languages import Direction
from manyglot.errors import ManyglotError
from manyglot.evaluation.metrics import BleuChrfScorer
from manyglot.evaluation.results import DirectionResult
from manyglot.evaluation.sentence_statistics import SentenceStatistics, to_smallest_dtype
from manyglot.langid.identifier import LanguageIdentifier, predict_labels
from manyglot.progress import progress_bar
from manyglot.worker_processes import num_cores, run_in_workers

MIN_PARALLEL_SENTENCES = 50_000
"""Below this number of sentences, scoring is faster than starting worker processes."""


MAX_OUTPUTS_PER_TASK = 10_000
"""A task with more than one direction has at most this many outputs, so that many cores share a few languages."""


class DirectionTexts(NamedTuple):
    """The sources, outputs and references of one direction."""

    sources: Sequence[str]
    outputs: Sequence[str]
    references: Sequence[str]


@dataclass(frozen=True)
class ScoredDirection:
    """The result of one direction and the sentence statistics it was computed from."""

    result: DirectionResult
    statistics: SentenceStatistics


class _SourceOutputs(NamedTuple):
    """The outputs from one source language, with their sources and references."""

    sources: Sequence[str]
    outputs: Sequence[str]
    reference_indices: Sequence[int]
    """For each output, the index of its reference in `_TargetTask.references`."""
    zero_shot: bool | None


@dataclass(frozen=True)
class _TargetTask:
    """Directions into one target language. `references` holds each distinct reference once."""

    target: str
    references: Sequence[str]
    outputs_by_source: Mapping[str, _SourceOutputs]


def score_directions(
    texts_by_direction: Mapping[Direction, DirectionTexts],
    zero_shot_directions: Sequence[Direction] | None,
    identifier: LanguageIdentifier,
    scorer: BleuChrfScorer | None = None,
    num_processes: int | None = None,
) -> dict[Direction, ScoredDirection]:
    """Score every direction, in `num_processes` processes; by default on all cores if there are enough sentences.

    `zero_shot_directions` is None if it is unknown which directions are zero-shot.
    """
    scorer = scorer or BleuChrfScorer()
    for direction, texts in texts_by_direction.items():
        _check_lengths(direction, texts)
    scorer.check_tokenizers_installed({direction.target for direction in texts_by_direction})
    tasks = _tasks_by_target(texts_by_direction, zero_shot_directions)
    num_sentences = sum(len(texts.outputs) for texts in texts_by_direction.values())
    num_processes = num_processes or (1 if num_sentences < MIN_PARALLEL_SENTENCES else num_cores())
    scored: dict[Direction, ScoredDirection] = {}
    with progress_bar(f"scoring {len(texts_by_direction)} directions", total=num_sentences) as progress:
        for scored_task in _run_tasks(tasks, identifier, scorer, num_processes):
            scored.update(scored_task)
            progress.advance(sum(direction.result.num_sentences for direction in scored_task.values()))
    return {direction: scored[direction] for direction in texts_by_direction}


def _check_lengths(direction: Direction, texts: DirectionTexts) -> None:
    sources, outputs, references = map(len, texts)
    if outputs != references or outputs != sources:
        raise ManyglotError(
            f"{direction} has {sources} sources, {outputs} outputs and {references} references. "
            f"Their numbers must be equal."
        )
    if not outputs:
        raise ManyglotError(f"{direction} has no sentences to score.")


def _tasks_by_target(
    texts_by_direction: Mapping[Direction, DirectionTexts], zero_shot_directions: Sequence[Direction] | None
) -> Iterator[_TargetTask]:
    """Yield the largest task first, so that no core waits long for the last one."""
    zero_shot = None if zero_shot_directions is None else set(zero_shot_directions)
    directions_by_target: dict[str, list[Direction]] = {}
    for direction in texts_by_direction:
        directions_by_target.setdefault(direction.target, []).append(direction)
    sizes = {
        target: sum(len(texts_by_direction[d].outputs) for d in directions)
        for target, directions in directions_by_target.items()
    }
    for target in sorted(directions_by_target, key=lambda target: -sizes[target]):
        num_tasks = ceil(sizes[target] / MAX_OUTPUTS_PER_TASK)
        for directions in filter(None, (directions_by_target[target][i::num_tasks] for i in range(num_tasks))):
            index_of_reference: dict[str, int] = {}
            outputs_by_source = {}
            for direction in directions:
                sources, outputs, references = texts_by_direction[direction]
                indices = [index_of_reference.setdefault(text, len(index_of_reference)) for text in references]
                is_zero_shot = None if zero_shot is None else direction in zero_shot
                outputs_by_source[direction.source] = _SourceOutputs(sources, outputs, indices, is_zero_shot)
            yield _TargetTask(target, list(index_of_reference), outputs_by_source)


def _run_tasks(
    tasks: Iterable[_TargetTask], identifier: LanguageIdentifier, scorer: BleuChrfScorer, num_processes: int
) -> Iterator[dict[Direction, ScoredDirection]]:
    if num_processes == 1:
        yield from (_score_task(task, identifier, scorer) for task in tasks)
    else:
        yield from run_in_workers(_score_in_worker, tasks, num_processes, _init_worker, (identifier, scorer))


_worker_state: dict[str, tuple[LanguageIdentifier, BleuChrfScorer]] = {}


def _init_worker(identifier: LanguageIdentifier, scorer: BleuChrfScorer) -> None:
    """Store what the worker needs for all its tasks."""
    _worker_state["scoring"] = identifier, scorer


def _score_in_worker(task: _TargetTask) -> dict[Direction, ScoredDirection]:
    return _score_task(task, *_worker_state["scoring"])


def _score_task(
    task: _TargetTask, identifier: LanguageIdentifier, scorer: BleuChrfScorer
) -> dict[Direction, ScoredDirection]:
    """Score the directions of a task."""
    reference_texts = scorer.detokenize_if_enabled(task.references, task.target)
    reference_ngrams = scorer.index_references(reference_texts, task.target)
    target_label = identifier.label_for(task.target)
    is_on_target = [label == target_label for label in predict_labels(identifier, reference_texts)]
    signature = scorer.bleu_signature(task.target)
    scored = {}
    for source, (source_texts, packed_outputs, reference_indices, zero_shot) in task.outputs_by_source.items():
        raw_outputs = list(packed_outputs)
        outputs = scorer.detokenize_if_enabled(raw_outputs, task.target)
        counts = reference_ngrams.count_matches(outputs, reference_indices)
        predictions = identifier.identify_batch(outputs)
        flags = (
            [is_on_target[i] for i in reference_indices],
            [label == target_label for label in predictions.unrestricted],
            list(map(_is_copy, raw_outputs, source_texts)),
            [not output.strip() for output in raw_outputs],
        )
        labels = predictions.restricted if identifier.is_restricted else predictions.unrestricted
        statistics = SentenceStatistics(
            fingerprints_N=_fingerprints(source_texts, [task.references[i] for i in reference_indices]),
            bleu_counts_NS=to_smallest_dtype(counts.bleu_counts_NS),
            chrf_counts_NS=to_smallest_dtype(counts.chrf_counts_NS),
            identified_languages_N=np.array([task.target if label == target_label else label for label in labels]),
            flags_NF=np.array(flags, dtype=np.bool_).T,
        )
        scores = statistics.direction_scores(task.target, target_label is not None)
        result = DirectionResult(source, task.target, zero_shot, bleu_signature=signature, **scores)
        scored[result.direction] = ScoredDirection(result, statistics)
    return scored


def _is_copy(output: str, source: str) -> bool:
    """Whether the output copies the source; empty outputs do not count."""
    return output.strip() == source.strip() != ""


def _fingerprints(sources: Sequence[str], references: Sequence[str]) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    """Return a hash of each sentence pair that is the same on every machine."""
    pairs = (
        f"{source}\n{reference}".encode(errors="surrogatepass")
        for source, reference in zip(sources, references, strict=True)
    )
    digests = b"".join(blake2b(pair, digest_size=8).digest() for pair in pairs)
    return np.frombuffer(digests, dtype="<u8").astype(np.uint64)
