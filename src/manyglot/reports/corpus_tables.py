"""Terminal tables about a corpus, its cleaning and its sampling, and an SVG of sampling shares."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from html import escape
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.text import Text

from manyglot.corpus.base import Split
from manyglot.corpus.cleaning import DropReason
from manyglot.corpus.inspection import MAX_REPETITION_CHECKED, CorpusInspection
from manyglot.corpus.languages import Direction, english_language_name
from manyglot.corpus.splitting import SplitStatistics
from manyglot.corpus.zero_shot_sets import ZeroShotSetStatistics
from manyglot.reports.result_table import NO_VALUE, ResultTable

IntArray = npt.NDArray[np.int64]
MAX_NAMED_TEST_SETS = 5
"""Number of leaking or small test sets to list."""
SMALL_TEST_SET = 100
"""Test sets with fewer sentences are listed."""
DROP_LABELS: Mapping[str, str] = {
    DropReason.NO_SUBWORDS: "no subwords",
    DropReason.TOO_LONG: "too long",
    DropReason.WRONG_SCRIPT: "wrong script",
    DropReason.WRONG_LANGUAGE: "another language",
    DropReason.LENGTH_RATIO: "length ratio",
    DropReason.IN_DEV_OR_TEST: "in dev or test",
    DropReason.DUPLICATE: "repeated",
}
MAX_REPEATS_PER_EPOCH = 20
"""Directions repeated more often than this in an epoch cause a warning."""


def print_corpus_inspection(inspection: CorpusInspection) -> None:
    """Print a table of the languages, sample sentences, and problems."""
    console = Console(soft_wrap=True)
    headings = ("language", *Split, "characters", "repeated")
    rows = [_inspection_row(inspection, code) for code in inspection.languages]
    console.print(ResultTable(headings, rows).to_rich())
    for code in inspection.languages:
        for sample in inspection.language_statistics[Split.TRAIN][code].sample_sentences:
            console.print(Text(f"{code:<6} {sample[:100]}"))
    num_rows = ", ".join(f"{n:,} {split}" for split, n in inspection.num_rows.items())
    num_pairs = sum(inspection.num_pairs[Split.TRAIN].values())
    num_directions = len(inspection.num_pairs[Split.TRAIN])
    console.print(f"{num_rows} rows; {num_pairs:,} training pairs in {num_directions} directions", highlight=False)
    for problem in [*inspection.read_errors, *inspection.warnings]:
        console.print(Text(f"! {problem}", style="yellow"))
    if not inspection.read_errors and not inspection.warnings:
        console.print("No problems found.")


def _inspection_row(inspection: CorpusInspection, code: str) -> list[str]:
    """Return the cells of a language: its sentences in each split, and statistics of its training text."""
    train = inspection.language_statistics[Split.TRAIN][code]
    counts = [inspection.language_statistics[split][code].num_sentences for split in Split]
    mean, repeated = NO_VALUE, NO_VALUE
    if train.num_sentences:
        mean = f"{train.num_characters / train.num_sentences:.0f}"
        repeated = f"{train.num_repeated / min(train.num_sentences, MAX_REPETITION_CHECKED):.1%}"
    cells = (f"{count:,}" if count else NO_VALUE for count in counts)
    return [f"{code} {english_language_name(code)}", *cells, mean, repeated]


def print_split_statistics(statistics: SplitStatistics) -> None:
    """Print how many sentences of each language went into each split, and how many rows were left out."""
    rows = [
        [f"{code} {english_language_name(code)}", *(f"{counts[split]:,}" for split in statistics.num_rows)]
        for code, counts in statistics.num_sentences.items()
    ]
    total = ["rows", *(f"{count:,}" for count in statistics.num_rows.values())]
    Console(soft_wrap=True).print(ResultTable(["language", *statistics.num_rows], rows, total).to_rich())
    if statistics.num_left_out:
        print(f"{statistics.num_left_out:,} rows left out of train: they share a sentence with dev or test")


def print_zero_shot_leakage(test_sets: Sequence[ZeroShotSetStatistics]) -> None:
    """Print the size of zero-shot test sets and how many sentences occur in training: the totals and the worst sets."""
    num_sentences, num_leaked = sum(s.num_sentences for s in test_sets), sum(s.num_any_leaked for s in test_sets)
    num_sides_leaked = sum(s.num_first_leaked + s.num_second_leaked for s in test_sets)
    num_central_leaked, num_written = (
        sum(s.num_central_leaked for s in test_sets),
        sum(s.num_written for s in test_sets),
    )
    print(
        f"{num_written:,} sentence pairs written for {len(test_sets):,} language pairs "
        f"({2 * len(test_sets):,} directions)"
    )
    print(
        f"{num_leaked:,} of {num_sentences:,} candidate pairs ({num_leaked / num_sentences:.1%}) occur in training: "
        f"{num_sides_leaked:,} sources or targets, {num_central_leaked:,} central-language sentences"
    )
    worst = sorted(test_sets, key=lambda s: -s.num_any_leaked / s.num_sentences)[:MAX_NAMED_TEST_SETS]
    for s in worst if num_leaked else ():
        print(f"  {s.first_language}-{s.second_language}: {s.num_any_leaked:,} of {s.num_sentences:,} in training")
    small = [f"{s.first_language}-{s.second_language}" for s in test_sets if s.num_written < SMALL_TEST_SET]
    if small:
        more = f" and {len(small) - MAX_NAMED_TEST_SETS} more" if small[MAX_NAMED_TEST_SETS:] else ""
        print(f"fewer than {SMALL_TEST_SET} sentences: {', '.join(small[:MAX_NAMED_TEST_SETS])}{more}")


def subword_statistics_table(languages: Mapping[str, Mapping[str, int]]) -> ResultTable:
    """Return how well the vocabulary fits each language: subwords per word and the share of unknown subwords."""
    rows = []
    for code, counts in languages.items():
        subwords, words = counts.get("subwords", 0), counts.get("words", 0)
        per_word = f"{subwords / words:.2f}" if words else NO_VALUE
        unknown = f"{counts.get('unknown', 0) / subwords:.2%}" if subwords else NO_VALUE
        sentences = f"{counts.get('sentences', 0):,}"
        rows.append([f"{code} {english_language_name(code)}", sentences, f"{subwords:,}", per_word, unknown])
    headings = ("language", "sentences", "subwords", "subwords per word", "unknown")
    return ResultTable(headings, rows)


def print_cleaning_report(
    splits: Mapping[str, Mapping[str, Mapping[str, int]]],
    examples: Mapping[str, Mapping[str, Mapping[str, list[str]]]],
    num_examples: int,
) -> None:
    """Print what cleaning dropped: totals by reason, the languages or directions with the most, and examples.

    `splits` and `examples` map split, language or direction, and reason to counts and to dropped text.
    """
    for split, counts_by_part in splits.items():
        totals: Counter[str] = sum((Counter(counts) for counts in counts_by_part.values()), start=Counter())
        for reason, total in totals.items():
            largest = sorted(counts_by_part, key=lambda part: -counts_by_part[part].get(reason, 0))[:3]
            where = ", ".join(f"{p} {counts_by_part[p][reason]:,}" for p in largest if counts_by_part[p].get(reason))
            print(f"dropped from {split}: {total:,} {DROP_LABELS.get(reason, reason)} (most in {where})")
            dropped = [(part, text) for part in counts_by_part for text in examples[split][part].get(reason, [])]
            for part, text in dropped[:num_examples]:
                print(f"  {part}: {text}")


@dataclass(frozen=True)
class SamplingStatistics:
    """How much of an epoch some pairs make up, and how often they repeat, by sampling method."""

    num_pairs: int
    epoch_share: dict[str, float]
    """Share of an epoch, from 0 to 1."""
    repeats_per_epoch: dict[str, float]
    """Mean number of times each pair is seen in an epoch."""


@dataclass(frozen=True)
class SamplingPreview:
    """The effect of sampling methods on a corpus."""

    by_direction: dict[Direction, SamplingStatistics]
    by_target: dict[str, SamplingStatistics]
    """All directions into a target language together."""

    @classmethod
    def from_counts(cls, num_pairs: Mapping[Direction, int], counts: Mapping[str, IntArray]) -> SamplingPreview:
        """Make a preview from the number of pairs of each direction and the samples per epoch of each method."""
        codes = sorted({direction.target for direction in num_pairs})
        directions = {d: _sampling_statistics([i], num_pairs, counts) for i, d in enumerate(num_pairs)}
        targets = {
            code: _sampling_statistics([i for i, d in enumerate(num_pairs) if d.target == code], num_pairs, counts)
            for code in codes
        }
        return cls(directions, targets)

    @property
    def sampling_ids(self) -> list[str]:
        """The identifiers of the sampling methods, such as `temperature:5`; `sampling_label` makes them readable."""
        return list(next(iter(self.by_direction.values())).epoch_share)

    def repetition_warnings(self) -> list[str]:
        """Warn of small directions that repeat too often in an epoch."""
        return [
            f"{sampling_label(name)}: {direction} repeats {repeats:.0f} times in an epoch."
            for direction, statistics in self.by_direction.items()
            for name, repeats in statistics.repeats_per_epoch.items()
            if repeats > MAX_REPEATS_PER_EPOCH
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for `--json`."""
        return {
            "directions": [{**d._asdict(), **asdict(statistics)} for d, statistics in self.by_direction.items()],
            "targets": [{"target": code, **asdict(statistics)} for code, statistics in self.by_target.items()],
            "warnings": self.repetition_warnings(),
        }


def sampling_label(sampling: str) -> str:
    """Return a readable label for the identifier of a sampling method."""
    return ", ".join(_sampling_part_label(*part.split(":")) for part in sampling.split(","))


def _sampling_part_label(kind: str, *values: str) -> str:
    match kind, values:
        case "temperature", [temperature]:
            return f"T = {temperature}"
        case "target_weight", [code, weight]:
            return f"into {code} × {weight}"
        case _:
            return kind


def _sampling_statistics(
    indices: list[int], num_pairs: Mapping[Direction, int], counts: Mapping[str, IntArray]
) -> SamplingStatistics:
    """Compute the statistics of the directions with these indices together."""
    total = int(np.array(list(num_pairs.values()))[indices].sum())
    num_sampled = {name: int(count[indices].sum()) for name, count in counts.items()}
    return SamplingStatistics(
        total,
        {name: num_sampled[name] / int(counts[name].sum()) for name in counts},
        {name: num_sampled[name] / total if total else 0.0 for name in counts},
    )


def print_sampling_preview(preview: SamplingPreview) -> None:
    """Print the shares and repeats of each target language and each direction."""
    console = Console(soft_wrap=True)
    targets = {f"{code} {english_language_name(code)}": row for code, row in preview.by_target.items()}
    console.print(_sampling_table("target", targets, preview.sampling_ids).to_rich())
    directions = {str(direction): row for direction, row in preview.by_direction.items()}
    console.print(_sampling_table("direction", directions, preview.sampling_ids).to_rich())
    for warning in preview.repetition_warnings():
        console.print(Text(f"! {warning}", style="yellow"))


def _sampling_table(heading: str, rows: Mapping[str, SamplingStatistics], sampling_ids: Sequence[str]) -> ResultTable:
    names = [column for name in sampling_ids for column in (f"share, {sampling_label(name)}", "repeats")]
    cells = [
        [
            label,
            f"{row.num_pairs:,}",
            *(
                cell
                for name in sampling_ids
                for cell in (f"{row.epoch_share[name]:.2%}", f"{row.repeats_per_epoch[name]:.2f}")
            ),
        ]
        for label, row in sorted(rows.items(), key=lambda item: -item[1].num_pairs)
    ]
    return ResultTable([heading, "pairs", *names], cells)


def sampling_preview_svg(preview: SamplingPreview) -> str:
    """Draw the share of an epoch as one bar for each target language and sampling method."""
    names, targets = preview.sampling_ids, list(preview.by_target)
    share = {(code, name): preview.by_target[code].epoch_share[name] for code in targets for name in names}
    colors, bar, left, width = ("#0d5972", "#d9822b", "#7a9e7e", "#8a5a83"), 9, 60, 640
    step = bar * len(names) + 6
    shares = sorted(max(share[code, name] for name in names) for code in targets)
    # The bar of a central language would dwarf all others, so it is cut off at the second largest share.
    largest = shares[-2] if len(shares) > 2 else shares[-1]
    height = 40 + step * len(targets)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {left + width + 70} {height}" '
        f'font-family="system-ui, sans-serif" font-size="11"><rect width="100%" height="100%" fill="white"/>'
    ]
    for n, name in enumerate(names):
        color, label = colors[n % len(colors)], sampling_label(name)
        parts.append(f'<text x="{left + 170 * n}" y="20" fill="{color}">share of an epoch, {escape(label)}</text>')
        for i, code in enumerate(targets):
            top, length = 34 + i * step + n * bar, min(share[code, name] / largest, 1.0) * width
            parts.append(f'<rect x="{left}" y="{top}" width="{length:.1f}" height="{bar - 1}" fill="{color}"/>')
            parts.append(
                f'<text x="{left + length + 4:.1f}" y="{top + 8}" font-size="9">{share[code, name]:.1%}</text>'
            )
    for i, code in enumerate(targets):
        y = 34 + i * step + bar * len(names) / 2 + 4
        parts.append(f'<text x="{left - 6}" y="{y}" text-anchor="end">{escape(code)}</text>')
    return "".join([*parts, "</svg>\n"])
