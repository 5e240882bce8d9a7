"""Checks that runs are comparable, and restricts runs to the test sentences they share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from manyglot.corpus.languages import Direction
from manyglot.errors import ManyglotError
from manyglot.evaluation.results import DirectionResult, Evaluation, count_output_languages, format_directions
from manyglot.evaluation.sentence_statistics import Array, SentenceStatistics
from manyglot.progress import print_status

ResultWithStatistics = tuple[DirectionResult, SentenceStatistics | None]


def share_supervision(runs: Sequence[Evaluation]) -> list[Evaluation]:
    """Let runs without known training directions adopt those of the first run that knows them.

    A foreign system is then compared in the groups of our models. The same holds for the central language.
    """
    known: dict[Direction, bool] = {}
    for run in runs:
        for d in run.directions:
            if d.zero_shot is not None:
                known.setdefault(d.direction, d.zero_shot)
    unknown = [run for run in runs if any(d.zero_shot is None and d.direction in known for d in run.directions)]
    if unknown:
        print_status(
            f"The training directions of {len(unknown)} of {len(runs)} runs are unknown. Their directions are grouped "
            f"as in the other runs."
        )
    central_language = next((run.central_language for run in runs if run.central_language is not None), None)
    return [_adopt_supervision(run, known, central_language) for run in runs]


def _adopt_supervision(run: Evaluation, known: Mapping[Direction, bool], central_language: str | None) -> Evaluation:
    results = [
        replace(d, zero_shot=known.get(d.direction)) if d.zero_shot is None and d.direction in known else d
        for d in run.directions
    ]
    if run.central_language is None and central_language is not None:
        run = replace(run, central_language=central_language)
    if results == run.directions:
        return run
    has_statistics = all(d.direction in run.statistics for d in results)
    counts = count_output_languages(results, run.statistics) if has_statistics else {}
    return replace(run, directions=results, output_language_counts=counts)


def check_same_metrics(runs: Sequence[Evaluation]) -> None:
    """Raise an error unless all runs have the same BLEU signatures, language identifier and central language."""
    signatures: dict[tuple[str, str], str | None] = {}
    for run in runs:
        bleu = {("bleu", d.target): d.bleu_signature for d in run.directions}
        for key, value in {
            **bleu,
            ("identifier", ""): run.identifier_signature,
            ("central_language", ""): run.central_language,
            **{
                ("metric", name): "lower is better" if metric.lower_is_better else "higher is better"
                for name, metric in run.metrics.items()
            },
        }.items():
            if signatures.setdefault(key, value) != value:
                metric, target = key
                name = {
                    "bleu": f"BLEU into {target}",
                    "identifier": "LangAcc",
                    "central_language": "the central language",
                    "metric": target,
                }[metric]
                raise ManyglotError(
                    f"The runs cannot be compared: {name} is {signatures[key]} in one and {value} in another. "
                    f"Evaluate all runs with the same settings."
                )


def check_same_test_sets(runs: Sequence[tuple[str, Evaluation]]) -> None:
    """Raise an error unless all runs, given as (name, evaluation), were tested on the same sentences and directions."""
    (first, run), *others = runs
    expected = {d.direction: (d.test_set_fingerprint, d.zero_shot) for d in run.directions}
    for name, other in others:
        actual = {d.direction: (d.test_set_fingerprint, d.zero_shot) for d in other.directions}
        differing = [d for d in {**expected, **actual} if expected.get(d) != actual.get(d)]
        if differing:
            raise ManyglotError(
                f"{first} and {name} were not tested on the same sentences and directions "
                f"({format_directions(differing)}). "
                f"Add --common-test-only to compare them on the test sentences they share."
            )


def restrict_to_common_sentences(runs: Sequence[Evaluation]) -> list[Evaluation]:
    """Restrict every run to the directions and sentences that all runs share, and rescore it.

    Directions that are zero-shot for only some of the runs are dropped. Reports how much remains.
    """
    tables = [{d.direction: d for d in run.directions} for run in runs]
    shared = [d for d in tables[0] if all(d in table for table in tables)]
    inconsistent = {d for d in shared if len({table[d].zero_shot for table in tables}) > 1}
    parts = {d: _restrict_direction([table[d] for table in tables], runs) for d in shared if d not in inconsistent}
    parts = {direction: part for direction, part in parts.items() if part}
    if not parts:
        raise ManyglotError("The runs share no test sentences in any direction.")
    num_shared = sum(part[0][0].num_sentences for part in parts.values())
    num_sentences = max(sum(d.num_sentences for d in run.directions) for run in runs)
    num_directions = max(map(len, tables))
    extent = f"{num_shared:,} of {num_sentences:,} sentences in {len(parts):,} of {num_directions:,} directions"
    print_status(f"Comparing the runs on the test sentences that all of them share: {extent}.")
    if inconsistent:
        print_status(
            f"{len(inconsistent)} directions are left out because they are zero-shot for only some of the runs."
        )
    return [_restrict_evaluation(run, {d: part[i] for d, part in parts.items()}) for i, run in enumerate(runs)]


def _restrict_evaluation(run: Evaluation, parts: dict[Direction, ResultWithStatistics]) -> Evaluation:
    """Return the run with only these directions, results and statistics."""
    results = [result for result, _ in parts.values()]
    if results == run.directions:
        return run
    statistics = {direction: part for direction, (_, part) in parts.items() if part is not None}
    has_statistics = all(direction in statistics for direction in parts)
    output_language_counts = count_output_languages(results, statistics) if has_statistics else {}
    return replace(run, directions=results, statistics=statistics, output_language_counts=output_language_counts)


def _restrict_direction(results: Sequence[DirectionResult], runs: Sequence[Evaluation]) -> list[ResultWithStatistics]:
    """Restrict one direction of every run to the sentences that all runs share; empty if there are none."""
    direction = results[0].direction
    all_statistics = [run.statistics.get(direction) for run in runs]
    if len({result.test_set_fingerprint for result in results}) == 1:
        return list(zip(results, all_statistics, strict=True))
    known = [statistics for statistics in all_statistics if statistics is not None]
    if len(known) < len(runs):
        raise ManyglotError(
            f"The runs share only some test sentences of {direction}, and not all runs have a statistics.npz. "
            f"Evaluate the runs that lack this file again."
        )
    shared = known[0].fingerprints_N
    for statistics in known[1:]:
        shared = np.intersect1d(shared, statistics.fingerprints_N)
    if not len(shared):
        return []
    return [_rescore_sentences(result, statistics, shared) for result, statistics in zip(results, known, strict=True)]


def _rescore_sentences(
    result: DirectionResult, statistics: SentenceStatistics, shared_fingerprints: Array
) -> ResultWithStatistics:
    """Rescore a direction on the shared sentences, each counted once and in an order that is the same for all runs."""
    fingerprints, first_indices = np.unique(statistics.fingerprints_N, return_index=True)
    selected = statistics.select_sentences(first_indices[np.isin(fingerprints, shared_fingerprints)])
    return replace(result, **selected.direction_scores(result.target, result.language_accuracy is not None)), selected
