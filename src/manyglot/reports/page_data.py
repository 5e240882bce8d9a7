"""What the page's script draws, as plain values: a column for each measure, and some sentences of each direction."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from manyglot.corpus.languages import Direction, name_of
from manyglot.errors import FolderError
from manyglot.evaluation.evaluate import DirectionResult, Evaluation, Example
from manyglot.evaluation.results import DirectionGroup, Places, pick_examples, read_examples
from manyglot.reports.language_places import language_places

NUM_WORST = 10
"""Directions of each kind whose sentences are shown beside one another."""
SENTENCES = 3
"""Of each of these; all others have one, that a click on them shows."""
LONGEST = 400
"""Letters of a sentence that are shown."""
ROOM = 1_500_000
"""Bytes for the sentences of the others; where they need more, they are left out."""

ABOUT = {
    "model",
    "languages",
    "parameters",
    "num_parameters",
    "num_trained_directions",
    "num_subwords",
    "training",
    "data",
}
"""What `about.json` tells at least."""

MEASURES: Mapping[str, tuple[Callable[[DirectionResult], float | None], int]] = {
    "bleu": (lambda d: d.bleu, 3),  # by which the page counts where a run is better
    "chrf": (lambda d: d.chrf, 1),
    "accuracy": (lambda d: d.language_accuracy, 1),
    "reference": (lambda d: d.reference_accuracy, 1),
    "relative": (lambda d: d.relative_accuracy, 1),
    "share": (lambda d: d.other_share, 1),
    "copied": (lambda d: d.copy_rate, 1),
    "empty": (lambda d: d.empty_rate, 1),
    "ratio": (lambda d: d.length_ratio, 2),
}
"""The measures of a direction, with the digits that are kept."""


@dataclass(frozen=True)
class Run:
    """A run as the report needs it."""

    name: str
    evaluation: Evaluation
    examples: Callable[[Places], Iterable[Example]]
    """Some of the sentences."""
    about: Mapping[str, Any]
    """What `evaluate` knows of the model, its data and its training; nothing of runs of earlier releases."""


def read_run(name: str, folder: Path) -> Run:
    """Read the folder that `manyglot evaluate --output` wrote, or its results.json with what is beside it."""
    evaluation = Evaluation.load(folder)
    folder = folder if folder.is_dir() else folder.parent
    path = folder / "about.json"
    try:
        about = json.loads(path.read_text("utf-8")) if path.exists() else {}
        if not isinstance(about, dict) or (about and not about.keys() >= ABOUT):
            raise ValueError("it tells something else")
    except (OSError, ValueError):
        raise FolderError(
            f"{path} is damaged. Evaluate again, or delete it for a report without a model card."
        ) from None
    return Run(name, evaluation, lambda places: read_examples(folder, places), about)


def run_of(name: str, evaluation: Evaluation, about: Mapping[str, Any]) -> Run:
    """A run that has just been evaluated."""
    return Run(name, evaluation, lambda places: pick_examples(evaluation.examples, places), about)


def part_of(run: Run, part: Evaluation) -> Run:
    """A run cut down to a part of its sentences; those that are shown are of this part."""

    def places_in(direction: Direction, places: Collection[int]) -> Collection[int]:
        whole, cut = run.evaluation.statistics.get(direction), part.statistics.get(direction)
        if whole is None or cut is None or cut is whole:
            return places
        order_N = np.argsort(whole.sentences_N, kind="stable")
        found_N = order_N[np.searchsorted(whole.sentences_N, cut.sentences_N, sorter=order_N)]
        return {int(found_N[place]) for place in places}

    return replace(
        run,
        evaluation=part,
        examples=lambda places: run.examples({each: places_in(each, those) for each, those in places.items()}),
    )


def worst_directions(run: Evaluation) -> dict[DirectionGroup, list[DirectionResult]]:
    """Those with the lowest BLEU, supervised and zero-shot apart, since the latter would fill the list."""
    kinds = (DirectionGroup.SUPERVISED, DirectionGroup.ZERO_SHOT)
    ordered = sorted(run.directions, key=lambda d: (d.bleu, d.chrf, d.source, d.target))
    found = {kind: [d for d in ordered if d.kind is kind][:NUM_WORST] for kind in kinds}
    return {kind: those for kind, those in found.items() if those}


def page_data(runs: Sequence[Run]) -> dict[str, Any]:
    """Everything, for JSON. The runs have the same directions."""
    first = runs[0].evaluation
    directions = [d.direction for d in first.directions]
    codes = sorted({code for direction in directions for code in direction})
    numbers = {code: i for i, code in enumerate(codes)}
    sentences = runs[0].about.get("data", {}).get("sentences", {})
    return {
        "languages": [{"code": code, "name": name_of(code), "sentences": sentences.get(code)} for code in codes],
        "pivot": first.pivot,
        "source": [numbers[d.source] for d in directions],
        "target": [numbers[d.target] for d in directions],
        "unseen": [int(d.zero_shot) for d in first.directions],
        "sentences": [d.num_sentences for d in first.directions],
        "runs": [_columns(run, directions) for run in runs],
        "names": {label: name_of(label) for label in sorted(_labels(runs))},
        **_examples(runs, directions),
        "places": language_places([(run.name, run.about) for run in runs]),
    }


def _columns(run: Run, directions: Sequence[Direction]) -> dict[str, Any]:
    results = {d.direction: d for d in run.evaluation.directions}
    ordered = [results[direction] for direction in directions]
    columns = {name: [_rounded(of(d), digits) for d in ordered] for name, (of, digits) in MEASURES.items()}
    return {
        "name": run.name,
        **columns,
        "other": [d.other_language for d in ordered],
        "outputs_in": run.evaluation.outputs_in,
    }


def _rounded(value: float | None, digits: int) -> float | None:
    return None if value is None or not math.isfinite(value) else round(value, digits)


def _labels(runs: Sequence[Run]) -> set[str]:
    """Whatever an identifier said."""
    other = {d.other_language for run in runs for d in run.evaluation.directions if d.other_language}
    kinds = [told for run in runs for kind in run.evaluation.outputs_in.values() for told in kind.values()]
    return (other | {label for told in kinds for label in told}) - {""}


def _examples(runs: Sequence[Run], directions: Sequence[Direction]) -> dict[str, Any]:
    """Some sentences of the first run by the number of their direction; a text that comes often is there once."""
    texts: dict[str, int] = {}
    worst = {d.direction for those in worst_directions(runs[0].evaluation).values() for d in those}
    sizes = {d.direction: d.num_sentences for d in runs[0].evaluation.directions}
    wanted = {d: _spread(sizes[d], SENTENCES if d in worst else 1) for d in directions}
    picked = _by_direction(runs[0].examples(wanted))
    others = [_by_direction(run.examples(wanted)) for run in runs[1:]]

    def number(text: str) -> int:
        return texts.setdefault(text if len(text) <= LONGEST else text[:LONGEST] + "…", len(texts))

    def entry(direction: Direction, e: Example) -> list[Any]:
        also = [_same_sentence(e, each.get(direction, ())) for each in others]
        told = [None if each is None else [number(each.output), each.identified] for each in also]
        return [number(e.text), number(e.output), number(e.reference), e.identified, told]

    found = {d: [entry(d, e) for e in those] for d, those in picked.items() if d in worst}
    num_needed = len(texts)
    found |= {d: [entry(d, e) for e in those] for d, those in picked.items() if d not in worst}
    if sum(len(text.encode(errors="replace")) for text in texts) > ROOM:
        found = {d: those for d, those in found.items() if d in worst}
        texts = dict(list(texts.items())[:num_needed])
    numbers = {direction: i for i, direction in enumerate(directions)}
    return {"texts": list(texts), "examples": {numbers[d]: those for d, those in found.items()}}


def _spread(size: int, number: int) -> set[int]:
    """Places in a test set, spread evenly; good and bad sentences come as they are."""
    number = min(size, number)
    return {(2 * i + 1) * size // (2 * number) for i in range(number)}


def _by_direction(examples: Iterable[Example]) -> dict[Direction, list[Example]]:
    found: dict[Direction, list[Example]] = {}
    for example in examples:
        found.setdefault(Direction(example.source, example.target), []).append(example)
    return found


def _same_sentence(example: Example, those: Iterable[Example]) -> Example | None:
    """What another run made of a sentence; it may have read the test set in another order, and then that is unknown."""
    same = (each for each in those if (each.text, each.reference) == (example.text, example.reference))
    return next(same, None)
