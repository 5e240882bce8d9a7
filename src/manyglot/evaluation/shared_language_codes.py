"""Lets runs that name the same languages in different styles, such as de and deu_Latn, share the codes of the first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from manyglot.corpus.language_selection import match_languages
from manyglot.corpus.languages import Direction
from manyglot.evaluation.results import Evaluation
from manyglot.evaluation.sentence_statistics import SentenceStatistics


def share_language_codes(runs: Sequence[Evaluation]) -> list[Evaluation]:
    """Rename the languages of all runs to the codes of the first run that has them."""
    return [rename_languages(run, codes) for run, codes in zip(runs, find_shared_codes(runs), strict=True)]


def find_shared_codes(runs: Sequence[Evaluation]) -> list[dict[str, str]]:
    """Map the codes of each run to the codes of the first run that has the same language."""
    known: list[str] = []
    codes_by_run = []
    for run in runs:
        own = list(dict.fromkeys(code for result in run.directions for code in result.direction))
        matches = match_languages(known, own, "the languages of the runs")
        codes = {code: shared for shared, code in matches.items()}
        known += [code for code in own if code not in codes]
        codes_by_run.append(codes)
    return codes_by_run


def rename_direction(direction: Direction, codes: Mapping[str, str]) -> Direction:
    """Return the direction with other codes."""
    return Direction(*(codes.get(code, code) for code in direction))


def rename_languages(run: Evaluation, codes: Mapping[str, str]) -> Evaluation:
    """Return the run with other codes; codes without a new one stay."""
    if all(old == new for old, new in codes.items()):
        return run

    def new_code(code: str) -> str:
        return codes.get(code, code)

    def rename_statistics(statistics: SentenceStatistics) -> SentenceStatistics:
        labels, index_N = np.unique(statistics.identified_languages_N, return_inverse=True)
        renamed = np.array([new_code(label) for label in labels.tolist()])
        return statistics._replace(identified_languages_N=renamed[index_N])

    results = [
        replace(
            result,
            source=new_code(result.source),
            target=new_code(result.target),
            top_off_target_language=result.top_off_target_language and new_code(result.top_off_target_language),
        )
        for result in run.directions
    ]
    counts = {
        group: {new_code(target): _rename_keys(by_language, codes) for target, by_language in counts_by_target.items()}
        for group, counts_by_target in run.output_language_counts.items()
    }
    return replace(
        run,
        directions=results,
        central_language=run.central_language and new_code(run.central_language),
        statistics={rename_direction(d, codes): rename_statistics(part) for d, part in run.statistics.items()},
        output_language_counts=counts,
    )


def _rename_keys(counts: Mapping[str, int], codes: Mapping[str, str]) -> dict[str, int]:
    renamed: Counter[str] = Counter()
    for code, count in counts.items():
        renamed[codes.get(code, code)] += count
    return dict(renamed)
