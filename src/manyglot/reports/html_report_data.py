"""The data of the HTML report, as plain values for its script: metrics and example sentences of each direction."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from manyglot.corpus.languages import Direction, english_language_name
from manyglot.errors import FolderError
from manyglot.evaluation.evaluator import DirectionResult, Evaluation, TranslationExample
from manyglot.evaluation.results import DirectionGroup, SentenceIndices, read_examples, select_examples_by_direction
from manyglot.reports.html_language_map import representation_map_data

NUM_WORST_DIRECTIONS = 10
"""Number of worst directions, supervised and zero-shot each, whose examples the report lists."""
EXAMPLES_PER_WORST_DIRECTION = 3
"""Number of examples of each worst direction; every other direction has one, shown on a click."""
MAX_SHOWN_CHARACTERS = 400
"""Longer sentences are truncated."""
MAX_EXAMPLE_BYTES = 1_500_000
"""Maximum size of all examples. If they exceed it, only those of the worst directions are included."""

REQUIRED_MODEL_CARD_KEYS = {
    "model",
    "languages",
    "parameters",
    "num_parameters",
    "num_trained_directions",
    "num_subwords",
    "training",
    "data",
}
"""The keys that `about.json` always has."""

METRIC_DIGITS: Mapping[str, int] = {
    "bleu": 3,  # more than is shown, because the report counts the directions where one run beats another
    "chrf": 1,
    "language_accuracy": 1,
    "reference_language_accuracy": 1,
    "relative_language_accuracy": 1,
    "top_off_target_rate": 1,
    "copy_rate": 1,
    "empty_rate": 1,
    "length_ratio": 2,
}
"""Attributes of a `DirectionResult`, with the number of decimals in the report's data."""


@dataclass(frozen=True)
class ReportRun:
    """An evaluated run, as the report needs it."""

    name: str
    evaluation: Evaluation
    load_examples: Callable[[SentenceIndices], Iterable[TranslationExample]]
    """Returns the translations of the given test sentences."""
    model_card: Mapping[str, Any]
    """The content of `about.json`: the model, its data and its training. Empty if the file is missing."""


def load_report_run(name: str, folder: Path) -> ReportRun:
    """Load a run from the folder that `manyglot evaluate --output` wrote, or from the results.json in it."""
    evaluation = Evaluation.load(folder)
    folder = folder if folder.is_dir() else folder.parent
    path = folder / "about.json"
    try:
        model_card = json.loads(path.read_text("utf-8")) if path.exists() else {}
        if not isinstance(model_card, dict) or (model_card and not model_card.keys() >= REQUIRED_MODEL_CARD_KEYS):
            raise ValueError("keys are missing")
    except (OSError, ValueError):
        raise FolderError(
            f"{path} is damaged. Evaluate again, or delete the file to get a report without a model card."
        ) from None
    return ReportRun(name, evaluation, lambda indices: read_examples(folder, indices), model_card)


def make_report_run(name: str, evaluation: Evaluation, model_card: Mapping[str, Any]) -> ReportRun:
    """Make a report run from an evaluation in memory."""
    return ReportRun(
        name, evaluation, lambda indices: select_examples_by_direction(evaluation.examples, indices), model_card
    )


def restrict_report_run(run: ReportRun, evaluation: Evaluation) -> ReportRun:
    """Replace a run's evaluation with that of a subset of its sentences. Examples then come from this subset, too."""

    def original_indices(direction: Direction, indices: Collection[int]) -> Collection[int]:
        whole, subset = run.evaluation.statistics.get(direction), evaluation.statistics.get(direction)
        if whole is None or subset is None or subset is whole:
            return indices
        order_N = np.argsort(whole.fingerprints_N, kind="stable")
        original_N = order_N[np.searchsorted(whole.fingerprints_N, subset.fingerprints_N, sorter=order_N)]
        return {int(original_N[index]) for index in indices}

    def load_examples(indices: SentenceIndices) -> Iterable[TranslationExample]:
        return run.load_examples({direction: original_indices(direction, i) for direction, i in indices.items()})

    return replace(run, evaluation=evaluation, load_examples=load_examples)


def lowest_bleu_directions(evaluation: Evaluation) -> dict[DirectionGroup, list[DirectionResult]]:
    """Return the directions with the lowest BLEU, separately for supervised and zero-shot directions."""
    groups = (DirectionGroup.SUPERVISED, DirectionGroup.ZERO_SHOT)
    ordered = sorted(evaluation.directions, key=lambda d: (d.bleu, d.chrf, d.source, d.target))
    lowest = {group: [d for d in ordered if d.supervision is group][:NUM_WORST_DIRECTIONS] for group in groups}
    return {group: directions for group, directions in lowest.items() if directions}


def build_html_report_data(runs: Sequence[ReportRun]) -> dict[str, Any]:
    """Return all data that the script of the report needs. The runs must have the same directions."""
    first = runs[0].evaluation
    directions = [d.direction for d in first.directions]
    codes = sorted({code for direction in directions for code in direction})
    index_by_code = {code: i for i, code in enumerate(codes)}
    num_sentences = runs[0].model_card.get("data", {}).get("sentences", {})
    return {
        "languages": [
            {
                "code": code,
                "name": english_language_name(code),
                "num_training_sentences": num_sentences.get(code),
            }
            for code in codes
        ],
        "central_language": first.central_language,
        "source": [index_by_code[d.source] for d in directions],
        "target": [index_by_code[d.target] for d in directions],
        "zero_shot": [int(d.zero_shot) for d in first.directions],
        "num_sentences": [d.num_sentences for d in first.directions],
        "runs": [_metric_columns(run, directions) for run in runs],
        "language_names": {label: english_language_name(label) for label in sorted(_identified_languages(runs))},
        **_example_data(runs, directions),
        "language_maps": representation_map_data([(run.name, run.model_card) for run in runs]),
    }


def _metric_columns(run: ReportRun, directions: Sequence[Direction]) -> dict[str, Any]:
    results = {d.direction: d for d in run.evaluation.directions}
    ordered = [results[direction] for direction in directions]
    columns = {
        name: [_round_if_finite(getattr(d, name), digits) for d in ordered] for name, digits in METRIC_DIGITS.items()
    }
    return {
        "name": run.name,
        **columns,
        "top_off_target_language": [d.top_off_target_language for d in ordered],
        "output_language_counts": run.evaluation.output_language_counts,
    }


def _round_if_finite(value: float | None, digits: int) -> float | None:
    return None if value is None or not math.isfinite(value) else round(value, digits)


def _identified_languages(runs: Sequence[ReportRun]) -> set[str]:
    """Return the labels of all languages that the identifier found in outputs."""
    labels = {d.top_off_target_language for run in runs for d in run.evaluation.directions if d.top_off_target_language}
    for run in runs:
        for counts_by_target in run.evaluation.output_language_counts.values():
            labels.update(label for counts in counts_by_target.values() for label in counts)
    return labels - {""}


def _example_data(runs: Sequence[ReportRun], directions: Sequence[Direction]) -> dict[str, Any]:
    """Return example sentences by the index of their direction; each distinct text is stored once."""
    texts: dict[str, int] = {}
    worst = {d.direction for results in lowest_bleu_directions(runs[0].evaluation).values() for d in results}
    sizes = {d.direction: d.num_sentences for d in runs[0].evaluation.directions}
    indices = {
        d: _evenly_spaced_indices(sizes[d], EXAMPLES_PER_WORST_DIRECTION if d in worst else 1) for d in directions
    }
    examples = _group_by_direction(runs[0].load_examples(indices))
    other_examples = [_group_by_direction(run.load_examples(indices)) for run in runs[1:]]

    def text_index(text: str) -> int:
        shown = text if len(text) <= MAX_SHOWN_CHARACTERS else text[:MAX_SHOWN_CHARACTERS] + "…"
        return texts.setdefault(shown, len(texts))

    def entry(direction: Direction, e: TranslationExample) -> list[Any]:
        same = [_find_same_sentence(e, by_direction.get(direction, ())) for by_direction in other_examples]
        others = [None if o is None else [text_index(o.output), o.identified_language] for o in same]
        indices = [text_index(text) for text in (e.source_text, e.output, e.reference)]
        return [*indices, e.identified_language, others]

    entries = {d: [entry(d, e) for e in group] for d, group in examples.items() if d in worst}
    num_worst_texts = len(texts)
    entries |= {d: [entry(d, e) for e in group] for d, group in examples.items() if d not in worst}
    if sum(len(text.encode(errors="replace")) for text in texts) > MAX_EXAMPLE_BYTES:
        entries = {d: group for d, group in entries.items() if d in worst}
        texts = dict(list(texts.items())[:num_worst_texts])
    index_by_direction = {direction: i for i, direction in enumerate(directions)}
    return {"texts": list(texts), "examples": {index_by_direction[d]: group for d, group in entries.items()}}


def _evenly_spaced_indices(size: int, num_indices: int) -> set[int]:
    """Return indices spread evenly over a test set, so that examples are not selected by quality."""
    num_indices = min(size, num_indices)
    return {(2 * i + 1) * size // (2 * num_indices) for i in range(num_indices)}


def _group_by_direction(examples: Iterable[TranslationExample]) -> dict[Direction, list[TranslationExample]]:
    groups: dict[Direction, list[TranslationExample]] = {}
    for example in examples:
        groups.setdefault(Direction(example.source, example.target), []).append(example)
    return groups


def _find_same_sentence(
    example: TranslationExample, candidates: Iterable[TranslationExample]
) -> TranslationExample | None:
    """Return another run's example of the same sentence, or None if that run has its sentences in another order."""
    key = (example.source_text, example.reference)
    return next((c for c in candidates if (c.source_text, c.reference) == key), None)
