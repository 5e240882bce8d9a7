"""The example sentences of the HTML report: their selection, their data for the script, and the worst directions.

Each direction has its worst sentence and its median sentence; the worst directions have several of their worst.
Sentences are ordered by `SentenceStatistics.order_from_worst`: wrong language first, then lowest chrF++.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from html import escape
from typing import Any, NamedTuple

from manyglot.corpus.languages import Direction, english_language_name
from manyglot.evaluation.evaluator import DirectionResult, Evaluation, TranslationExample
from manyglot.evaluation.results import DirectionGroup
from manyglot.reports.report_run import ReportRun
from manyglot.reports.result_parts import group_label

NUM_WORST_DIRECTIONS = 10
"""Number of worst directions, supervised and zero-shot each, that the report lists."""
NUM_WORST_SENTENCES = 3
"""Number of worst sentences of each worst direction; every other direction has one."""
MAX_SHOWN_CHARACTERS = 400
"""Longer sentences are truncated."""
MAX_EXAMPLE_BYTES = 1_500_000
"""Maximum size of all texts. The worst sentences of the worst directions are always included. Then come the worst
sentences of the other directions and the median sentences, each part only if it fits."""
MAX_DIRECTIONS_WITH_EXAMPLES = 10_000
"""With more directions, only the worst ones have sentences; those of all others would not fit."""
MEDIAN_RANK = 0
"""The rank that marks the median sentence; the worst sentences have the ranks 1, 2, …"""


class ExampleEntry(NamedTuple):
    """An example in the data of the page. Texts are indices into the list of distinct texts."""

    source_text: int
    output: int
    reference: int
    identified_language: str
    other_outputs: list[tuple[int, str] | None]
    """Output and identified language of each other run; None if it has its sentences in another order."""
    rank: int | None
    """See `MEDIAN_RANK`; None if the run has no sentence statistics."""
    chrf: float | None
    """chrF++ of the sentence; None without sentence statistics."""


class _SelectedSentence(NamedTuple):
    rank: int | None
    chrf: float | None


class _Candidate(NamedTuple):
    """An example that is included if its text fits."""

    direction: Direction
    selected: _SelectedSentence
    example: TranslationExample
    others: list[TranslationExample | None]
    """The same sentence in each other run."""

    def texts(self) -> list[str]:
        """Return the texts as they are shown."""
        outputs = [other.output for other in self.others if other]
        return list(map(_truncate, (self.example.source_text, self.example.output, self.example.reference, *outputs)))

    def entry(self, text_indices: Mapping[str, int]) -> ExampleEntry:
        """Return the entry in the data of the page."""
        source_text, output, reference, *_ = (text_indices[text] for text in self.texts())
        others = [
            (text_indices[_truncate(other.output)], other.identified_language) if other else None
            for other in self.others
        ]
        return ExampleEntry(source_text, output, reference, self.example.identified_language, others, *self.selected)


def lowest_bleu_directions(evaluation: Evaluation) -> dict[DirectionGroup, list[DirectionResult]]:
    """Return the directions with the lowest BLEU, separately for supervised and zero-shot ones if these are known."""
    groups = (DirectionGroup.SUPERVISED, DirectionGroup.ZERO_SHOT, DirectionGroup.ALL)
    ordered = sorted(evaluation.directions, key=lambda d: (d.bleu, d.chrf, d.source, d.target))
    lowest = {group: [d for d in ordered if d.supervision is group][:NUM_WORST_DIRECTIONS] for group in groups}
    return {group: directions for group, directions in lowest.items() if directions}


def example_data(runs: Sequence[ReportRun], directions: Sequence[Direction]) -> dict[str, Any]:
    """Return the examples by the index of their direction, the worst first; each distinct text is stored once."""
    evaluation = runs[0].evaluation
    worst = {d.direction for results in lowest_bleu_directions(evaluation).values() for d in results}
    candidates = list(_load_candidates(runs, worst))
    candidates_by_priority = [
        [c for c in candidates if c.selected.rank != MEDIAN_RANK and c.direction in worst],
        [c for c in candidates if c.selected.rank != MEDIAN_RANK and c.direction not in worst],
        [c for c in candidates if c.selected.rank == MEDIAN_RANK],
    ]
    text_indices: dict[str, int] = {}
    entries: dict[Direction, list[ExampleEntry]] = {}
    for i, part in enumerate(candidates_by_priority):
        extended = dict(text_indices)
        for text in (text for candidate in part for text in candidate.texts()):
            extended.setdefault(text, len(extended))
        if i > 0 and sum(len(text.encode(errors="replace")) for text in extended) > MAX_EXAMPLE_BYTES:
            break
        text_indices = extended
        for candidate in part:
            entries.setdefault(candidate.direction, []).append(candidate.entry(text_indices))
    index_by_direction = {direction: i for i, direction in enumerate(directions)}
    examples = {index_by_direction[d]: sorted(group, key=_display_position) for d, group in entries.items()}
    return {"texts": list(text_indices), "examples": examples}


def _load_candidates(runs: Sequence[ReportRun], worst: Collection[Direction]) -> Iterator[_Candidate]:
    """Load the selected sentences of all directions from all runs."""
    evaluation = runs[0].evaluation
    selected = {
        d.direction: _select_sentences(evaluation, d, NUM_WORST_SENTENCES if d.direction in worst else 1)
        for d in evaluation.directions
        if d.direction in worst or len(evaluation.directions) <= MAX_DIRECTIONS_WITH_EXAMPLES
    }
    examples, *others = (_group_by_direction(run.load_examples(selected)) for run in runs)
    for direction, group in examples.items():
        in_test_set_order = [selected[direction][index] for index in sorted(selected[direction])]
        for sentence, example in zip(in_test_set_order, group, strict=False):
            same = [_find_same_sentence(example, by_direction.get(direction, ())) for by_direction in others]
            yield _Candidate(direction, sentence, example, same)


def _select_sentences(evaluation: Evaluation, d: DirectionResult, num_worst: int) -> dict[int, _SelectedSentence]:
    """Select the worst sentences and the median one; without statistics, sentences that are evenly spaced."""
    statistics = evaluation.statistics.get(d.direction)
    if statistics is None:
        num_indices = min(d.num_sentences, num_worst)
        unknown = _SelectedSentence(None, None)
        return {(2 * i + 1) * d.num_sentences // (2 * num_indices): unknown for i in range(num_indices)}
    order, chrf = statistics.order_from_worst(d.target).tolist(), statistics.sentence_chrf().round(1).tolist()
    selected = {order[len(order) // 2]: MEDIAN_RANK} | {index: i + 1 for i, index in enumerate(order[:num_worst])}
    return {index: _SelectedSentence(rank, chrf[index]) for index, rank in selected.items()}


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


def _display_position(entry: ExampleEntry) -> tuple[bool, int]:
    """Sort the worst sentence first and the median sentence last."""
    return entry.rank == MEDIAN_RANK, entry.rank or 0


def _truncate(text: str) -> str:
    return text if len(text) <= MAX_SHOWN_CHARACTERS else text[:MAX_SHOWN_CHARACTERS] + "…"


def worst_directions_html(runs: Sequence[ReportRun], data: Mapping[str, Any]) -> str:
    """List the worst directions with their worst sentences, from the data of the page."""
    index_by_direction = {d.direction: i for i, d in enumerate(runs[0].evaluation.directions)}
    parts: list[str] = []
    ranks: set[int | None] = set()
    for group, results in lowest_bleu_directions(runs[0].evaluation).items():
        parts.append(f"<h3>{group_label(group).capitalize()}</h3>")
        for i, d in enumerate(results):
            entries = [e for e in data["examples"].get(index_by_direction[d.direction], []) if e.rank != MEDIAN_RANK]
            ranks.update(entry.rank for entry in entries)
            examples = "".join(_example_html(d, entry, runs, data["texts"]) for entry in entries)
            is_open = " open" if i == 0 else ""
            parts.append(f"<details{is_open}><summary>{_direction_heading(d)}</summary>{examples}</details>")
    note = f"Directions with the lowest BLEU of {runs[0].name}."
    if ranks == {None}:
        note += " The sentences are spread evenly over the test set, because statistics.npz is missing."
    elif ranks:
        note += (
            " Each shows its worst sentences: outputs in a wrong language first, then those with the lowest chrF++. "
            "Sentences whose reference the identifier does not recognize are judged by chrF++ only."
        )
    return f"<p class=quiet>{escape(note)}</p>" + "".join(parts)


def _direction_heading(d: DirectionResult) -> str:
    facts = [f"BLEU {d.bleu:.1f}", f"chrF++ {d.chrf:.1f}"]
    if d.language_accuracy is not None:
        facts.append(f"LangAcc {d.language_accuracy:.0f}%")
    if d.top_off_target_language and d.top_off_target_rate >= 5:
        facts.append(f"{d.top_off_target_rate:.0f}% in {english_language_name(d.top_off_target_language)}")
    languages = f"{english_language_name(d.source)} → {english_language_name(d.target)}"
    return f"<b>{escape(languages)}</b> <span>{escape(', '.join(facts))}</span>"


def _example_html(d: DirectionResult, entry: ExampleEntry, runs: Sequence[ReportRun], texts: Sequence[str]) -> str:
    """Show source, outputs and reference; an output in another language is marked with that language."""
    lines = [_labeled_text_html("source", texts[entry.source_text], d.source)]
    outputs = [(runs[0].name, entry.output, entry.identified_language)]
    outputs += [(r.name, *other) for r, other in zip(runs[1:], entry.other_outputs, strict=True) if other is not None]
    for name, text_index, language in outputs:
        label = "output" if len(runs) == 1 else f"output of {name}"
        is_off_target = language != d.target and d.language_accuracy is not None
        language_name = english_language_name(language) if language else "no language"
        mark = f" <em>{escape(language_name)}</em>" if is_off_target else ""
        lines.append(_labeled_text_html(label, texts[text_index], language, mark))
    lines.append(_labeled_text_html("reference", texts[entry.reference], d.target))
    if entry.chrf is not None:
        lines.append(f"<dt>chrF++</dt><dd>{entry.chrf:.1f}</dd>")
    return f"<dl class=sentence>{''.join(lines)}</dl>"


def _labeled_text_html(label: str, text: str, code: str, mark: str = "") -> str:
    lang = f' lang="{escape(code)}"' if code else ""
    shown = escape(text) if text.strip() else "<i class=quiet>empty</i>"
    return f"<dt>{escape(label)}{mark}</dt><dd dir=auto{lang}>{shown}</dd>"
