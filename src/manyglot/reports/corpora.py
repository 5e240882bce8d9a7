"""What a corpus has and what sampling makes of it: tables for the terminal, and a picture of the shares."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from html import escape
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.table import Table
from rich.text import Text

from manyglot.corpus.cleaning import DropReason
from manyglot.corpus.inspection import REMEMBERED, Inspection
from manyglot.corpus.languages import Direction, name_of
from manyglot.corpus.rows import Split
from manyglot.corpus.zero_shot import SetFacts

IntArray = npt.NDArray[np.int64]
WORST, FEW = 5, 100
"""Test sets that are named, and how few sentences are worth a line."""
DROP_LABELS: Mapping[str, str] = {
    DropReason.NO_SUBWORDS: "no subwords",
    DropReason.TOO_LONG: "too long",
    DropReason.WRONG_SCRIPT: "wrong script",
    DropReason.WRONG_LANGUAGE: "another language",
    DropReason.LENGTH_RATIO: "length ratio",
    DropReason.IN_DEV_OR_TEST: "in dev or test",
    DropReason.DUPLICATE: "repeated",
}
OFTEN = 20
"""A direction that is seen more often than this in an epoch is warned of."""


def print_inspection(inspection: Inspection) -> None:
    """A line for each language, samples, and the problems."""
    console = Console(soft_wrap=True)
    table = Table()
    table.add_column("language")
    for heading in ("train", "dev", "test", "characters", "repeated"):
        table.add_column(heading, justify="right")
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


def print_zero_shot(facts: Sequence[SetFacts]) -> None:
    """How large zero-shot test sets are and how much of them training has seen: the sums, and the worst."""
    found, leaked = sum(each.num_sentences for each in facts), sum(each.leaked for each in facts)
    sides = sum(each.one_leaked + each.other_leaked for each in facts)
    pivot, written = sum(each.pivot_leaked for each in facts), sum(each.written for each in facts)
    print(f"{written:,} sentence pairs written for {len(facts):,} pairs of languages, {2 * len(facts):,} directions")
    print(
        f"{leaked:,} of {found:,} found ({leaked / found:.1%}) are in training: "
        f"{sides:,} sources or targets, {pivot:,} by their pivot"
    )
    for each in sorted(facts, key=lambda each: -each.leaked / each.num_sentences)[:WORST] if leaked else ():
        print(f"  {each.one}-{each.other}: {each.leaked:,} of {each.num_sentences:,} in training")
    small = [f"{each.one}-{each.other}" for each in facts if each.written < FEW]
    if small:
        more = f" and {len(small) - WORST} more" if small[WORST:] else ""
        print(f"fewer than {FEW} sentences: {', '.join(small[:WORST])}{more}")


def print_subwords(languages: Mapping[str, Mapping[str, int]]) -> None:
    """How the vocabulary fits each language: subwords of a word, and what it has no subword for."""
    table = Table()
    table.add_column("language")
    for heading in ("sentences", "subwords", "subwords a word", "unknown"):
        table.add_column(heading, justify="right")
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
            print(f"left out of {split}: {number:,} {DROP_LABELS.get(reason, reason)} (most in {where})")
            known = [(p, text) for p in places for text in examples[split][p].get(reason, [])]
            for place, text in known[:num_examples]:
                print(f"  {place}: {text}")


@dataclass(frozen=True)
class Seen:
    """How often some text is seen in an epoch, by the identifier of a way of sampling."""

    pairs: int
    share: dict[str, float]
    """Of an epoch."""
    epochs: dict[str, float]
    """How often each pair is seen in an epoch."""


@dataclass(frozen=True)
class Preview:
    """What ways of sampling make of a corpus."""

    directions: dict[Direction, Seen]
    targets: dict[str, Seen]
    """By target language."""

    @classmethod
    def of(cls, sizes: Mapping[Direction, int], counts: Mapping[str, IntArray]) -> Preview:
        """From the pairs of each direction and how many of them each way of sampling draws in an epoch."""
        codes = sorted({direction.target for direction in sizes})
        directions = {d: _seen([i], sizes, counts) for i, d in enumerate(sizes)}
        targets = {c: _seen([i for i, d in enumerate(sizes) if d.target == c], sizes, counts) for c in codes}
        return cls(directions, targets)

    @property
    def samplings(self) -> list[str]:
        """The identifiers of the ways of sampling, such as `temperature:5`; `sampling_label` says them in words."""
        return list(next(iter(self.directions.values())).share)

    def warnings(self) -> list[str]:
        """Directions whose few sentences are seen again and again."""
        return [
            f"{sampling_label(name)}: {direction} repeats {often:.0f} times in an epoch."
            for direction, seen in self.directions.items()
            for name, often in seen.epochs.items()
            if often > OFTEN
        ]

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "directions": [{**d._asdict(), **asdict(seen)} for d, seen in self.directions.items()],
            "targets": [{"target": code, **asdict(seen)} for code, seen in self.targets.items()],
            "warnings": self.warnings(),
        }


def sampling_label(sampling: str) -> str:
    """The identifier of a way of sampling in words."""
    return ", ".join(_label(*part.split(":")) for part in sampling.split(","))


def _label(kind: str, *values: str) -> str:
    match kind, values:
        case "temperature", [temperature]:
            return f"T = {temperature}"
        case "into", [code, times]:
            return f"into {code} {times} times"
        case _:
            return kind


def _seen(rows: list[int], sizes: Mapping[Direction, int], counts: Mapping[str, IntArray]) -> Seen:
    """The directions of these numbers together."""
    pairs = int(np.array(list(sizes.values()))[rows].sum())
    drawn = {name: int(each[rows].sum()) for name, each in counts.items()}
    return Seen(
        pairs,
        {name: drawn[name] / int(counts[name].sum()) for name in counts},
        {name: drawn[name] / pairs if pairs else 0.0 for name in counts},
    )


def print_preview(preview: Preview) -> None:
    """A line for each target language and one for each direction."""
    console = Console(soft_wrap=True)
    into = {f"{code} {name_of(code)}": seen for code, seen in preview.targets.items()}
    console.print(_preview_table("into", into, preview.samplings))
    directions = {str(direction): seen for direction, seen in preview.directions.items()}
    console.print(_preview_table("direction", directions, preview.samplings))
    for warning in preview.warnings():
        console.print(Text(f"! {warning}", style="yellow"))


def _preview_table(heading: str, lines: Mapping[str, Seen], samplings: Sequence[str]) -> Table:
    table = Table()
    table.add_column(heading)
    table.add_column("pairs", justify="right")
    for name in samplings:
        table.add_column(f"share, {sampling_label(name)}", justify="right")
        table.add_column("epochs", justify="right")
    for line, seen in sorted(lines.items(), key=lambda item: -item[1].pairs):
        cells = [cell for name in samplings for cell in (f"{seen.share[name]:.2%}", f"{seen.epochs[name]:.2f}")]
        table.add_row(line, f"{seen.pairs:,}", *cells)
    return table


def preview_svg(preview: Preview) -> str:
    """A bar for each target language and way of sampling: its share of an epoch."""
    names, targets = preview.samplings, list(preview.targets)
    share = {(code, name): preview.targets[code].share[name] for code in targets for name in names}
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
        colour, label = colours[n % len(colours)], sampling_label(name)
        parts.append(f'<text x="{left + 170 * n}" y="20" fill="{colour}">share of an epoch, {escape(label)}</text>')
        for i, code in enumerate(targets):
            top, long = 34 + i * step + n * bar, min(share[code, name] / most, 1.0) * width
            parts.append(f'<rect x="{left}" y="{top}" width="{long:.1f}" height="{bar - 1}" fill="{colour}"/>')
            parts.append(f'<text x="{left + long + 4:.1f}" y="{top + 8}" font-size="9">{share[code, name]:.1%}</text>')
    for i, code in enumerate(targets):
        y = 34 + i * step + bar * len(names) / 2 + 4
        parts.append(f'<text x="{left - 6}" y="{y}" text-anchor="end">{escape(code)}</text>')
    return "".join([*parts, "</svg>\n"])
