"""The directions that became worse or better than those of a baseline: a summary, and tables for the terminal."""

from __future__ import annotations

from collections.abc import Iterator

from manyglot.corpus.languages import english_language_name
from manyglot.evaluation.direction_changes import DirectionChange, DirectionChanges
from manyglot.evaluation.system_scores import SIGNIFICANCE_LEVEL
from manyglot.reports.displayable import DisplayPart
from manyglot.reports.result_table import ResultTable

MAX_ROWS = 10
"""Maximum number of directions in each table of the terminal."""
CHANCE_BLEU = 2.0
"""BLEU that unrelated sentences can reach. Validation ranks no step by such a score either."""


def direction_change_parts(changes: DirectionChanges, baseline_name: str) -> Iterator[DisplayPart]:
    """Yield a summary and the directions that changed most."""
    yield summarize_changes(changes, baseline_name)
    for title, listed in (("Significantly worse", changes.worse), ("Significantly better", changes.better)):
        if listed:
            yield f"{title} ({len(listed):,}):"
            yield ResultTable(change_headings(baseline_name), [format_change(each) for each in listed[:MAX_ROWS]])
        if len(listed) > MAX_ROWS:
            yield f"and {len(listed) - MAX_ROWS:,} more, in the report"


def summarize_changes(changes: DirectionChanges, baseline_name: str) -> str:
    """Count the changes, and say how many are expected by chance."""
    number, num_worse, num_better = len(changes.changes), len(changes.worse), len(changes.better)
    mean = sum(change.difference for change in changes.changes) / number
    by_chance = round(SIGNIFICANCE_LEVEL / 2 * number)
    sentences = [
        f"Of the {number:,} directions that {baseline_name} also has, {_count(num_worse)} significantly worse and "
        f"{_count(num_better)} significantly better (paired bootstrap of BLEU, p < {SIGNIFICANCE_LEVEL}). By chance, "
        f"about {by_chance:,} of each are expected.",
        f"The mean BLEU changes by {mean:+.1f}.",
    ]
    significant = [*changes.worse, *changes.better]
    if num_low := sum(max(each.before, each.after) <= CHANCE_BLEU for each in significant):
        sentences.append(
            f"{num_low:,} of the significant changes {'is' if num_low == 1 else 'are'} between scores up to "
            f"{CHANCE_BLEU:g} BLEU, which unrelated sentences can reach."
        )
    if changes.num_new:
        sentences.append(f"{changes.num_new:,} directions are new.")
    if changes.num_missing:
        sentences.append(f"{changes.num_missing:,} directions of {baseline_name} were not evaluated again.")
    return " ".join(sentences)


def change_headings(baseline_name: str) -> list[str]:
    """Return the headings of the columns that `format_change` fills."""
    return ["direction", "sentences", baseline_name, "now", "difference", "p"]


def format_change(change: DirectionChange) -> list[str]:
    """Return the cells of a direction."""
    source, target = map(english_language_name, change.direction)
    return [
        f"{source} → {target}",
        f"{change.num_sentences:,}",
        f"{change.before:.1f}",
        f"{change.after:.1f}",
        f"{change.difference:+.1f}",
        f"{change.p_value:.3f}",
    ]


def _count(number: int) -> str:
    return f"{number:,} {'is' if number == 1 else 'are'}"
