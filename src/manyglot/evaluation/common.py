"""Whether runs were tested alike, and what of their tests they share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from manyglot.corpus.languages import Direction
from manyglot.errors import ManyglotError
from manyglot.evaluation.results import DirectionResult, Evaluation, count_languages
from manyglot.evaluation.statistics import Array, Statistics
from manyglot.progress import say

NAMED = 5
"""Directions that a message names."""

Part = tuple[DirectionResult, Statistics | None]


def check_measures(runs: Sequence[Evaluation]) -> None:
    """Refuse scores of different kinds."""
    measures: dict[tuple[str, str], str | None] = {}
    for run in runs:
        bleu = {("bleu", d.target): d.bleu_signature for d in run.directions}
        for key, value in {**bleu, ("identifier", ""): run.identifier, ("pivot", ""): run.pivot}.items():
            if measures.setdefault(key, value) != value:
                measure, target = key
                name = {"bleu": f"BLEU into {target}", "identifier": "LangAcc", "pivot": "the pivot"}[measure]
                raise ManyglotError(
                    f"The runs cannot be compared: {name} is {measures[key]} in one and {value} in another. "
                    f"Evaluate them alike."
                )


def check_test_sets(runs: Sequence[tuple[str, Evaluation]]) -> None:
    """Refuse runs, given with their names, that were not tested on the same sentences."""
    (first, run), *others = runs
    expected = {d.direction: (d.test_set, d.zero_shot) for d in run.directions}
    for name, other in others:
        found = {d.direction: (d.test_set, d.zero_shot) for d in other.directions}
        wrong = [d for d in {**expected, **found} if expected.get(d) != found.get(d)]
        if wrong:
            named = ", ".join(map(str, wrong[:NAMED])) + (f" and {len(wrong) - NAMED:,} more" if wrong[NAMED:] else "")
            raise ManyglotError(
                f"{first} and {name} were not tested on the same sentences in the same directions ({named}). "
                f"--common compares what they share."
            )


def common_part(runs: Sequence[Evaluation]) -> list[Evaluation]:
    """Every run cut down to the directions and sentences of all; say how much that is."""
    tables = [{d.direction: d for d in run.directions} for run in runs]
    shared = [d for d in tables[0] if all(d in table for table in tables)]
    unlike = {d for d in shared if len({table[d].zero_shot for table in tables}) > 1}
    parts = {d: _cut([table[d] for table in tables], runs) for d in shared if d not in unlike}
    parts = {direction: part for direction, part in parts.items() if part}
    if not parts:
        raise ManyglotError("The runs have no sentences in common in any direction.")
    sentences = sum(part[0][0].num_sentences for part in parts.values())
    total = max(sum(d.num_sentences for d in run.directions) for run in runs)
    most = max(map(len, tables))
    shared_part = f"{sentences:,} of {total:,} sentences in {len(parts):,} of {most:,} directions"
    say(f"Compared is what all runs share: {shared_part}.")
    if unlike:
        say(f"{len(unlike)} directions are left out, because they are zero-shot for some runs only.")
    return [_with_parts(run, {d: part[i] for d, part in parts.items()}) for i, run in enumerate(runs)]


def _with_parts(run: Evaluation, parts: dict[Direction, Part]) -> Evaluation:
    """A run of these directions only."""
    results = [result for result, _ in parts.values()]
    if results == run.directions:
        return run
    statistics = {direction: counted for direction, (_, counted) in parts.items() if counted is not None}
    is_told = all(d in statistics and statistics[d].identified_N is not None for d in parts)
    outputs_in = count_languages(results, statistics) if is_told else {}
    return replace(run, directions=results, statistics=statistics, outputs_in=outputs_in)


def _cut(results: Sequence[DirectionResult], runs: Sequence[Evaluation]) -> list[Part]:
    """A direction with the sentences that all runs have; nothing where there are none."""
    direction = results[0].direction
    counted = [run.statistics.get(direction) for run in runs]
    if len({result.test_set for result in results}) == 1:
        return list(zip(results, counted, strict=True))
    known = [each for each in counted if each is not None and each.chrf_NS is not None]
    if len(known) < len(runs):
        raise ManyglotError(
            f"To compare the common part of {direction}, all runs need a statistics.npz of this version. "
            f"Evaluate those without one again."
        )
    shared = known[0].sentences_N
    for each in known[1:]:
        shared = np.intersect1d(shared, each.sentences_N)
    return [_keep(result, each, shared) for result, each in zip(results, known, strict=True)] if len(shared) else []


def _keep(result: DirectionResult, counted: Statistics, shared: Array) -> Part:
    """Some sentences of a direction, each once and in an order that all runs share, and its scores on them."""
    sentences, first = np.unique(counted.sentences_N, return_index=True)
    left = counted.part(first[np.isin(sentences, shared)])
    return replace(result, **left.scores(result.target, result.language_accuracy is not None)), left
