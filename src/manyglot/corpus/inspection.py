"""Inspect a corpus before it is prepared: size, samples and likely defects of each language and split."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from manyglot.corpus.base import Corpus, Row, Split
from manyglot.corpus.bilingual import BilingualCorpus
from manyglot.corpus.language_check import FileSample, SuspiciousFile
from manyglot.corpus.languages import Direction, Languages
from manyglot.errors import ManyglotError

MAX_REPETITION_CHECKED = 1_000_000
"""Sentences per language and split that are checked for repetitions."""
MAX_NAMED_DIRECTIONS = 5
"""Number of directions without training text that a warning lists."""
WARNING_SHARE = 0.05
"""Warn when more than this share of the checked sentences is repeated."""


@dataclass
class SplitLanguageStatistics:
    """Sentence counts and samples of one language in one split."""

    num_sentences: int = 0
    num_characters: int = 0
    num_repeated: int = 0
    """Repetitions of an earlier sentence, among the first `MAX_REPETITION_CHECKED`."""
    sample_sentences: list[str] = field(default_factory=list)

    def to_dict(self) -> dict[str, object]:
        """Return the statistics as plain values."""
        return {
            "num_sentences": self.num_sentences,
            "num_characters": self.num_characters,
            "num_repeated": self.num_repeated,
            "sample_sentences": self.sample_sentences,
        }


@dataclass
class CorpusInspection:
    """The size of a corpus and its possible defects."""

    languages: Languages
    num_rows: dict[Split, int]
    language_statistics: dict[Split, dict[str, SplitLanguageStatistics]]
    num_pairs: dict[Split, Counter[Direction]]
    """Sentence pairs of each training direction."""
    suspicious_files: list[SuspiciousFile]
    """Files in another script or language than their names say."""
    read_errors: list[str]
    """Reasons why a split could not be read to its end."""
    warnings: list[str]
    """Possible defects of the text that was read, most serious first."""

    def to_dict(self) -> dict[str, object]:
        """Return the inspection as plain values."""
        return {
            "languages": list(self.languages),
            "num_rows": dict(self.num_rows),
            "language_statistics": {
                split: {code: each.to_dict() for code, each in statistics.items()}
                for split, statistics in self.language_statistics.items()
            },
            "num_pairs": {
                split: {direction.as_setting(): count for direction, count in counts.items()}
                for split, counts in self.num_pairs.items()
            },
            "suspicious_files": [each.to_dict() for each in self.suspicious_files],
            "read_errors": self.read_errors,
            "warnings": self.warnings,
        }


def inspect_splits(corpus: Corpus, directions: Sequence[Direction], num_samples: int = 2) -> CorpusInspection:
    """Read every split once and collect statistics. A split that cannot be read is reported in `read_errors`."""
    languages = Languages(corpus.languages)
    num_rows = dict.fromkeys(Split, 0)
    statistics = {split: {code: SplitLanguageStatistics() for code in languages} for split in Split}
    num_pairs: dict[Split, Counter[Direction]] = {split: Counter() for split in Split}
    suspicious_files: list[SuspiciousFile] = []
    read_errors, is_train_read = [], True
    for split in Split:
        samples: dict[str, FileSample] = {}
        seen_hashes: dict[str, set[int]] = {code: set() for code in languages}
        try:
            for row in corpus.rows(split):
                num_rows[split] += 1
                for code, sentence in row.items():
                    _count_sentence(statistics[split][code], sentence, seen_hashes[code], num_samples)
                    if (file := _file_name(corpus, split, code, row)) not in samples:
                        samples[file] = FileSample(file, code)
                    samples[file].add(sentence, row)
                num_pairs[split].update(_directions_in_row(row, directions))
        except ManyglotError as error:
            read_errors.append(str(error))
            is_train_read &= split != Split.TRAIN
        suspicious_files += [defect for _, sample in sorted(samples.items()) for defect in sample.find_defects()]
    inspection = CorpusInspection(languages, num_rows, statistics, num_pairs, suspicious_files, read_errors, [])
    inspection.warnings += _corpus_warnings(inspection, directions if is_train_read else ())
    return inspection


def _file_name(corpus: Corpus, split: Split, code: str, row: Row) -> str:
    """The file that a sentence comes from, named as in the docs; the columns of a table count as files."""
    pair = f".{'-'.join(sorted(row))}" if isinstance(corpus, BilingualCorpus) and len(row) == 2 else ""
    return f"{split}{pair}.{code}"


def _count_sentence(
    statistics: SplitLanguageStatistics, sentence: str, seen_hashes: set[int], num_samples: int
) -> None:
    statistics.num_sentences += 1
    statistics.num_characters += len(sentence)
    if len(statistics.sample_sentences) < num_samples:
        statistics.sample_sentences.append(sentence)
    if statistics.num_sentences <= MAX_REPETITION_CHECKED:
        sentence_hash = hash(sentence)
        statistics.num_repeated += sentence_hash in seen_hashes
        seen_hashes.add(sentence_hash)


def _directions_in_row(row: Row, directions: Sequence[Direction]) -> Iterator[Direction]:
    if len(row) == 2:  # faster for bilingual corpora, which have many directions but two languages per row
        first, second = row
        return (d for d in (Direction(first, second), Direction(second, first)) if d in directions)
    return (d for d in directions if d.source in row and d.target in row)


def _corpus_warnings(inspection: CorpusInspection, directions: Sequence[Direction]) -> Iterator[str]:
    """Yield a message for each possible defect, most serious first."""
    without_text = [str(direction) for direction in directions if not inspection.num_pairs[Split.TRAIN][direction]]
    if without_text and len(without_text) == len(directions):
        yield "No training text in any direction."
    elif without_text:
        more = f" and {len(without_text) - MAX_NAMED_DIRECTIONS} more" if without_text[MAX_NAMED_DIRECTIONS:] else ""
        yield f"No training text for {', '.join(without_text[:MAX_NAMED_DIRECTIONS])}{more}."
    for split in (Split.DEV, Split.TEST):
        if not inspection.num_rows[split]:
            yield f"No {split} text."
        else:
            statistics = inspection.language_statistics[split]
            missing = [code for code in inspection.languages if not statistics[code].num_sentences]
            if missing:
                yield f"No {split} text in {', '.join(missing)}."
    yield from map(str, inspection.suspicious_files)
    for split, statistics in inspection.language_statistics.items():
        for code, counts in statistics.items():
            num_checked = min(counts.num_sentences, MAX_REPETITION_CHECKED)
            if counts.num_repeated > WARNING_SHARE * num_checked:
                yield f"{split}.{code}: {counts.num_repeated / num_checked:.0%} of the sentences are repetitions."
