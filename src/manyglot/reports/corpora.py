"""What a corpus has and what sampling makes of it: tables for the terminal, and a picture of the shares."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from html import escape

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from manyglot.corpus.inspection import REMEMBERED, Inspection
from manyglot.corpus.languages import Direction, name_of
from manyglot.corpus.rows import Split
from manyglot.corpus.sampling import epoch_counts

OFTEN = 20
"""A direction that is seen more often than this in an epoch is warned of."""


def print_inspection(inspection: Inspection) -> None:
    """A line for each language, samples, and the problems."""
    console = Console(soft_wrap=True)
    table = Table()
    for heading in ("language", "train", "dev", "test", "characters", "repeated"):
        table.add_column(heading, justify="left" if heading == "language" else "right")
    for code in inspection.languages:
        train = inspection.facts[Split.TRAIN][code]
        counts = [f"{inspection.facts[split][code].sentences:,}" for split in Split]
        mean = f"{train.characters / train.sentences:.0f}" if train.sentences else "–"
        repeated = f"{train.repeated / min(train.sentences, REMEMBERED):.1%}" if train.sentences else "–"
        table.add_row(f"{code} {name_of(code)}", *counts, mean, repeated)
    console.print(table)
    for code in inspection.languages:
        for sample in inspection.facts[Split.TRAIN][code].samples:
            console.print(Text(f"{code:<6} {sample[:100]}"))
    rows = ", ".join(f"{n:,} {split}" for split, n in inspection.rows.items())
    pairs = sum(inspection.pairs[Split.TRAIN].values())
    num_directions = len(inspection.pairs[Split.TRAIN])
    console.print(f"{rows} rows; {pairs:,} training pairs in {num_directions} directions", highlight=False)
    for problem in [*inspection.errors, *inspection.problems]:
        console.print(Text(f"! {problem}", style="yellow"))
    if not inspection.errors and not inspection.problems:
        console.print("No problems found.")


def print_subwords(languages: Mapping[str, Mapping[str, int]]) -> None:
    """How the vocabulary fits each language: subwords of a word, and what it has no subword for."""
    table = Table()
    for heading in ("language", "sentences", "subwords", "subwords a word", "unknown"):
        table.add_column(heading, justify="left" if heading == "language" else "right")
    for code, counts in languages.items():
        subwords, words = counts.get("subwords", 0), counts.get("words", 0)
        per_word = f"{subwords / words:.2f}" if words else "–"
        unknown = f"{counts.get('unknown', 0) / subwords:.2%}" if subwords else "–"
        table.add_row(f"{code} {name_of(code)}", f"{counts.get('sentences', 0):,}", f"{subwords:,}", per_word, unknown)
    Console(soft_wrap=True).print(table)


def print_dropped(
    splits: Mapping[str, Mapping[str, Mapping[str, int]]],
    examples: Mapping[str, Mapping[str, Mapping[str, list[str]]]],
    num_examples: int,
) -> None:
    """What cleaning left out: the sums by reason, where most of it was, and some of it."""
    for split, places in splits.items():
        reasons: Counter[str] = sum((Counter(counts) for counts in places.values()), start=Counter())
        for reason, number in reasons.items():
            most = sorted(places, key=lambda place: -places[place].get(reason, 0))[:3]
            where = ", ".join(f"{place} {places[place][reason]:,}" for place in most if places[place].get(reason))
            print(f"left out of {split}: {number:,} {reason} (most in {where})")
            known = [(p, text) for p in places for text in examples[split][p].get(reason, [])]
            for place, text in known[:num_examples]:
                print(f"  {place}: {text}")


def preview(sizes: Mapping[Direction, int], temperatures: Sequence[float | None]) -> list[dict[str, object]]:
    """For each direction: its pairs, and by temperature its share of an epoch and how often a pair is seen in one."""
    numbers = np.array(list(sizes.values()))
    counts = {_name(t): epoch_counts(numbers, t) for t in temperatures}
    rows = []
    for i, (direction, size) in enumerate(sizes.items()):
        row: dict[str, object] = {"source": direction.source, "target": direction.target, "pairs": size}
        row["share"] = {name: float(each[i] / each.sum()) for name, each in counts.items()}
        row["epochs"] = {name: float(each[i] / size) if size else 0.0 for name, each in counts.items()}
        rows.append(row)
    return rows


def warnings(rows: Sequence[Mapping[str, object]]) -> list[str]:
    """Directions whose few sentences are seen again and again."""
    found = []
    for row in rows:
        for name, often in row["epochs"].items():  # type: ignore[attr-defined]
            if often > OFTEN:
                found.append(f"T = {name}: {row['source']}→{row['target']} repeats {often:.0f} times in an epoch.")
    return found


def print_preview(rows: Sequence[Mapping[str, object]]) -> None:
    """A line for each direction."""
    console = Console(soft_wrap=True)
    names = list(rows[0]["share"])  # type: ignore[call-overload]
    table = Table()
    table.add_column("direction")
    table.add_column("pairs", justify="right")
    for name in names:
        table.add_column(f"share, T = {name}", justify="right")
        table.add_column("epochs", justify="right")
    for row in sorted(rows, key=lambda row: -int(row["pairs"])):  # type: ignore[call-overload]
        cells = [f"{row['share'][n]:.2%} {row['epochs'][n]:.2f}".split() for n in names]  # type: ignore[index]
        table.add_row(
            f"{row['source']}→{row['target']}", f"{row['pairs']:,}", *(cell for both in cells for cell in both)
        )
    console.print(table)
    for warning in warnings(rows):
        console.print(Text(f"! {warning}", style="yellow"))


def preview_svg(rows: Sequence[Mapping[str, object]]) -> str:
    """A bar for each target language and temperature: its share of an epoch."""
    names = list(rows[0]["share"])  # type: ignore[call-overload]
    targets = sorted({str(row["target"]) for row in rows})
    share = {
        (code, name): sum(row["share"][name] for row in rows if row["target"] == code)  # type: ignore[index]
        for code in targets
        for name in names
    }
    colours, bar, left, width = ("#0d5972", "#d9822b", "#7a9e7e", "#8a5a83"), 9, 60, 640
    step = bar * len(names) + 6
    by_target = sorted(max(share[code, name] for name in names) for code in targets)
    most = by_target[-2] if len(by_target) > 2 else by_target[-1]  # a pivot's bar would dwarf the others: it is cut
    height = 40 + step * len(targets)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {left + width + 70} {height}" '
        f'font-family="system-ui, sans-serif" font-size="11"><rect width="100%" height="100%" fill="white"/>'
    ]
    for n, name in enumerate(names):
        colour = colours[n % len(colours)]
        parts.append(f'<text x="{left + 170 * n}" y="20" fill="{colour}">share of an epoch, T = {escape(name)}</text>')
        for i, code in enumerate(targets):
            top, long = 34 + i * step + n * bar, min(share[code, name] / most, 1.0) * width
            parts.append(f'<rect x="{left}" y="{top}" width="{long:.1f}" height="{bar - 1}" fill="{colour}"/>')
            parts.append(f'<text x="{left + long + 4:.1f}" y="{top + 8}" font-size="9">{share[code, name]:.1%}</text>')
    for i, code in enumerate(targets):
        y = 34 + i * step + bar * len(names) / 2 + 4
        parts.append(f'<text x="{left - 6}" y="{y}" text-anchor="end">{escape(code)}</text>')
    return "".join([*parts, "</svg>\n"])


def _name(temperature: float | None) -> str:
    return "none" if temperature is None else f"{temperature:g}"
