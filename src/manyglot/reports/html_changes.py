"""The section of the HTML report on changes since a baseline, such as the model before fine-tuning."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from manyglot.corpus.languages import english_language_name
from manyglot.evaluation.direction_changes import DirectionChange, DirectionChanges
from manyglot.evaluation.system_scores import SIGNIFICANCE_LEVEL

MAX_OPEN_ROWS = 60
"""A longer table is folded."""


def changes_html(changes: DirectionChanges, baseline_name: str) -> str:
    """Name the directions that are significantly worse or better than those of the baseline."""
    worse, better = changes.worse, changes.better
    parts = [f"<p>{escape(_summary(changes, baseline_name))}</p>"]
    parts += [_table_html("Significantly worse: forgotten", worse, baseline_name)] if worse else []
    parts += [_table_html("Significantly better", better, baseline_name)] if better else []
    return "".join(parts)


def _summary(changes: DirectionChanges, baseline_name: str) -> str:
    number, num_worse, num_better = len(changes.changes), len(changes.worse), len(changes.better)
    mean = sum(change.difference for change in changes.changes) / number
    by_chance = round(SIGNIFICANCE_LEVEL / 2 * number)
    sentences = [
        f"Of the {number:,} directions that {baseline_name} also has, {_count(num_worse)} significantly worse and "
        f"{_count(num_better)} significantly better (paired bootstrap of BLEU, p < {SIGNIFICANCE_LEVEL}). By chance, "
        f"about {by_chance:,} of each are expected.",
        f"The mean BLEU changes by {mean:+.1f}.",
    ]
    if changes.num_new:
        sentences.append(f"{changes.num_new:,} directions are new.")
    if changes.num_missing:
        sentences.append(f"{changes.num_missing:,} directions of {baseline_name} were not evaluated again.")
    return " ".join(sentences)


def _count(number: int) -> str:
    return f"{number:,} {'is' if number == 1 else 'are'}"


def _table_html(title: str, changes: Sequence[DirectionChange], baseline_name: str) -> str:
    headings = ("direction", "sentences", baseline_name, "now", "difference", "p")
    head = "".join(f"<th scope=col>{escape(heading)}</th>" for heading in headings)
    rows = "".join(f"<tr>{_cells_html(change)}</tr>" for change in changes)
    is_open = " open" if len(changes) <= MAX_OPEN_ROWS else ""
    return (
        f"<details{is_open}><summary>{title} ({len(changes):,})</summary><div class=scroll><table><thead>"
        f"<tr>{head}</tr></thead><tbody>{rows}</tbody></table></div></details>"
    )


def _cells_html(change: DirectionChange) -> str:
    source, target = map(english_language_name, change.direction)
    values = [
        f"{change.num_sentences:,}",
        f"{change.before:.1f}",
        f"{change.after:.1f}",
        f"{change.difference:+.1f}",
        f"{change.p_value:.3f}",
    ]
    cells = "".join(f"<td class=number>{value}</td>" for value in values)
    return f"<th scope=row>{escape(source)} → {escape(target)}</th>{cells}"
