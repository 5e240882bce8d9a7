"""Scores of outputs that are there already, in all directions: a task for each target language, on all cores.

The directions into a language share its references, so each of those is read and identified once.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from hashlib import blake2b
from multiprocessing import get_context
from typing import NamedTuple

import numpy as np

from manyglot.corpus.languages import Direction
from manyglot.errors import ManyglotError
from manyglot.evaluation.results import DirectionResult
from manyglot.evaluation.scores import Measure
from manyglot.evaluation.statistics import Statistics, smallest
from manyglot.langid.identifier import Identifier, labels_of
from manyglot.progress import bar

ALONE_BELOW = 50_000
"""Sentences that are scored sooner than other processes are started."""


class Translated(NamedTuple):
    """The outputs of one direction, with their sources and references."""

    sources: Sequence[str]
    outputs: Sequence[str]
    references: Sequence[str]


@dataclass(frozen=True)
class Scored:
    """What is found out about a direction."""

    result: DirectionResult
    statistics: Statistics

    @property
    def identified(self) -> list[str]:
        """The language of each output: the target's code where it is that, another label where not."""
        assert self.statistics.identified_N is not None
        return [str(each) for each in self.statistics.identified_N]


@dataclass(frozen=True)
class _Task:
    """All directions into one language; a direction has the numbers of its references."""

    target: str
    references: Sequence[str]
    directions: Mapping[str, tuple[Sequence[str], Sequence[str], Sequence[int], bool]]


def score_directions(
    translated: Mapping[Direction, Translated],
    zero_shot: Sequence[Direction],
    identifier: Identifier,
    measure: Measure | None = None,
    num_processes: int | None = None,
) -> dict[Direction, Scored]:
    """Score every direction; on all cores unless there is little to do."""
    measure = measure or Measure()
    for direction, each in translated.items():
        _check_lengths(direction, each)
    measure.check({direction.target for direction in translated})
    tasks = list(_tasks(translated, set(zero_shot)))
    total = sum(len(each.outputs) for each in translated.values())
    processes = num_processes or (1 if total < ALONE_BELOW else len(os.sched_getaffinity(0)))
    found: dict[Direction, Scored] = {}
    with bar(f"scoring {len(translated)} directions", total=total) as progress:
        for part in _run(tasks, identifier, measure, processes):
            found.update(part)
            progress.advance(sum(each.result.num_sentences for each in part.values()))
    return {direction: found[direction] for direction in translated}


def _check_lengths(direction: Direction, translated: Translated) -> None:
    sources, outputs, references = map(len, translated)
    if outputs != references or outputs != sources:
        raise ManyglotError(
            f"{direction} has {sources} sources, {outputs} outputs and {references} references. "
            f"There should be one of each for every sentence."
        )
    if not outputs:
        raise ManyglotError(f"{direction} has no sentences to score.")


def _tasks(translated: Mapping[Direction, Translated], zero_shot: set[Direction]) -> Iterator[_Task]:
    """The largest first, so that no core waits long for the last."""
    targets: dict[str, list[Direction]] = {}
    for direction in translated:
        targets.setdefault(direction.target, []).append(direction)
    sizes = {code: sum(len(translated[d].outputs) for d in those) for code, those in targets.items()}
    for code in sorted(targets, key=lambda code: -sizes[code]):
        places: dict[str, int] = {}
        directions = {}
        for direction in targets[code]:
            sources, outputs, references = translated[direction]
            where = [places.setdefault(reference, len(places)) for reference in references]
            directions[direction.source] = (sources, outputs, where, direction in zero_shot)
        yield _Task(code, list(places), directions)


def _run(
    tasks: Sequence[_Task], identifier: Identifier, measure: Measure, num_processes: int
) -> Iterator[dict[Direction, Scored]]:
    if num_processes == 1:
        yield from (_score(task, identifier, measure) for task in tasks)
        return
    context = get_context("spawn")
    with ProcessPoolExecutor(num_processes, context, _begin, (identifier, measure)) as pool:
        for done in as_completed([pool.submit(_score_here, task) for task in tasks]):
            yield done.result()


_worker: dict[str, tuple[Identifier, Measure]] = {}


def _begin(identifier: Identifier, measure: Measure) -> None:
    """What a process needs for all its tasks."""
    import torch

    torch.set_num_threads(1)  # there are as many processes as cores
    _worker["with"] = identifier, measure


def _score_here(task: _Task) -> dict[Direction, Scored]:
    return _score(task, *_worker["with"])


def _score(task: _Task, identifier: Identifier, measure: Measure) -> dict[Direction, Scored]:
    """All directions into a language."""
    plain = measure.plain(task.references, task.target)
    references, label = measure.read(plain, task.target), identifier.label(task.target)
    right = [each == label for each in labels_of(identifier, plain)]
    signature = measure.bleu_signature(task.target)
    found = {}
    for source, (texts, raw, places, unseen) in task.directions.items():
        outputs = measure.plain(raw, task.target)
        counts, told = references.compare(outputs, places), identifier.identify_all(outputs)
        flags = (
            [right[place] for place in places],
            [each == label for each in told.open],
            list(map(_same, raw, texts)),
            [not output.strip() for output in raw],
        )
        languages = told.restricted if identifier.restrict else told.open
        statistics = Statistics(
            sentences_N=_fingerprints(texts, [task.references[place] for place in places]),
            bleu_NS=smallest(counts.bleu_NS),
            chrf_NS=smallest(counts.chrf_NS),
            identified_N=np.array([task.target if each == label else each for each in languages]),
            flags_NF=np.array(flags, dtype=np.bool_).T,
        )
        scores = statistics.scores(task.target, label is not None)
        result = DirectionResult(source, task.target, unseen, bleu_signature=signature, **scores)
        found[result.direction] = Scored(result, statistics)
    return found


def _same(output: str, source: str) -> bool:
    """Whether the source was only copied; an empty output is counted as empty."""
    return output.strip() == source.strip() != ""


def _fingerprints(sources: Sequence[str], references: Sequence[str]) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    """A number for each sentence pair, the same on every machine."""
    pairs = (
        f"{source}\n{reference}".encode(errors="surrogatepass")
        for source, reference in zip(sources, references, strict=True)
    )
    digests = b"".join(blake2b(pair, digest_size=8).digest() for pair in pairs)
    return np.frombuffer(digests, dtype="<u8").astype(np.uint64)
