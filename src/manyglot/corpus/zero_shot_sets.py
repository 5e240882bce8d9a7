"""Build zero-shot test sets from an English-centric corpus, and detect sentences that training has seen.

An English-centric corpus pairs German with English and French with English. Where the English side is the same up to
whitespace, the German and the French are translations of each other. The paper builds its 3,306 test sets of the TED
talks this way. A sentence that occurs several times yields all combinations of its translations.

Such a set is only useful if training has not seen its sentences. A test sentence leaks if its source, its target or its
English occurs in the training text of that language, ignoring case and punctuation.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations, product
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import Field, TypeAdapter

from manyglot.corpus.base import Row
from manyglot.corpus.textfiles import write_aligned_rows
from manyglot.errors import CorpusError, FolderError, LanguageError
from manyglot.files import read_json_object, write_json
from manyglot.folders import atomic_folder

LEAK_STATISTICS_FILE = "leaks.json"
"""The file beside the test sets that counts the sentences training has seen."""


class AlignedSentence(NamedTuple):
    """A sentence in two languages, aligned through the same sentence in the central language."""

    first_text: str
    second_text: str
    central_text: str


class LeakedSides(NamedTuple):
    """Which texts of an aligned sentence occur in training."""

    first: bool
    second: bool
    central: bool


class ZeroShotSets:
    """Test sets of all pairs of non-central languages; `include_supervised` adds pairs with the central language."""

    def __init__(
        self,
        rows: Iterable[Row],
        central_language: str,
        deduplicate_translations: bool = False,
        include_supervised: bool = False,
    ) -> None:
        self.central_language = central_language
        self._translations: dict[str, dict[str, list[str]]] = defaultdict(dict)
        """Maps a sentence of the central language to its translations by language."""
        for row in rows:
            if central_language in row:
                translations = self._translations[" ".join(row[central_language].split())]
                for code, text in row.items():
                    if code != central_language:
                        translations.setdefault(code, []).append(text)
        if deduplicate_translations:
            for translations in self._translations.values():
                translations |= {code: list(dict.fromkeys(texts)) for code, texts in translations.items()}
        self.languages = tuple(sorted({code for by_language in self._translations.values() for code in by_language}))
        if len(self.languages) < 2:
            raise CorpusError(f"The test text has no two languages that share sentences in '{central_language}'.")
        if include_supervised:
            self.languages = tuple(sorted({*self.languages, central_language}))
            for central_text, translations in self._translations.items():
                translations[central_language] = [central_text]

    def language_pairs(self) -> list[tuple[str, str]]:
        """All unordered pairs of languages."""
        return list(combinations(self.languages, 2))

    def aligned_sentences(self, first: str, second: str) -> Iterator[AlignedSentence]:
        """Yield all combinations of translations of the same sentence into two languages."""
        for central_text, translations in self._translations.items():
            if first in translations and second in translations:
                for first_text, second_text in product(translations[first], translations[second]):
                    yield AlignedSentence(first_text, second_text, central_text)

    def sentences_by_language(self) -> dict[str, set[str]]:
        """The distinct sentences of each language."""
        sentences: dict[str, set[str]] = {self.central_language: set(self._translations)}
        for translations in self._translations.values():
            for code, texts in translations.items():
                sentences.setdefault(code, set()).update(texts)
        return sentences


class LeakDetector:
    """Detects which test sentences occur in the training text of their language."""

    def __init__(self, test_sets: ZeroShotSets, training: Iterable[Row]) -> None:
        keys = {
            code: {text: normalize_for_leak_check(text) for text in texts}
            for code, texts in test_sets.sentences_by_language().items()
        }
        test_keys = {code: set(by_text.values()) for code, by_text in keys.items()}
        seen_keys: dict[str, set[str]] = {code: set() for code in test_keys}
        for row in training:
            for code, text in row.items():
                if code in test_keys and (key := normalize_for_leak_check(text)) in test_keys[code]:
                    seen_keys[code].add(key)
        self._central_language = test_sets.central_language
        self._leaked_texts = {
            code: {text for text, key in by_text.items() if key in seen_keys[code]} for code, by_text in keys.items()
        }

    def leaked_sides(self, language_pair: tuple[str, str], sentence: AlignedSentence) -> LeakedSides:
        """Whether training has seen the text in the first, the second and the central language."""
        codes = (*language_pair, self._central_language)
        return LeakedSides(*(text in self._leaked_texts[code] for code, text in zip(codes, sentence, strict=True)))


@dataclass(frozen=True)
class ZeroShotSetStatistics:
    """Size of one test set, and how many of its sentences training has seen."""

    first_language: str
    second_language: str
    num_sentences: Annotated[int, Field(ge=1)]
    """Sentences found, before leaked ones are dropped and the maximum is applied."""
    num_first_leaked: int
    num_second_leaked: int
    num_central_leaked: int
    num_any_leaked: int
    """Sentences that leak in at least one of the three languages."""
    num_written: int

    def to_dict(self) -> dict[str, str | int]:
        """Return the statistics as plain values."""
        return asdict(self)


@dataclass(frozen=True)
class _StoredLeakStatistics:
    leaked_dropped: bool
    sets: list[ZeroShotSetStatistics]


_STORED_LEAK_STATISTICS = TypeAdapter(_StoredLeakStatistics)


def write_zero_shot_sets(
    folder: Path,
    test_sets: ZeroShotSets,
    leak_detector: LeakDetector,
    drop_leaked: bool = False,
    max_sentences_per_pair: int | None = None,
) -> list[ZeroShotSetStatistics]:
    """Write two files for each pair of languages that shares sentences, named as in OPUS-100, and the leak statistics.

    If the folder is named `zero-shot` and is inside a bilingual corpus, the sets become part of that corpus.
    """
    statistics = []
    with atomic_folder(folder) as unfinished:
        for pair in test_sets.language_pairs():
            sentences = list(test_sets.aligned_sentences(*pair))
            leaks = [leak_detector.leaked_sides(pair, sentence) for sentence in sentences]
            usable = [s for s, leak in zip(sentences, leaks, strict=True) if not (drop_leaked and any(leak))]
            written = usable[:max_sentences_per_pair]
            if sentences:
                statistics.append(_count_leaks(pair, leaks, len(written)))
            if written:
                _write_test_set(unfinished, pair, written)
        if not statistics:
            raise CorpusError(f"No two languages share a test sentence in '{test_sets.central_language}'.")
        report = {"leaked_dropped": drop_leaked, "sets": [each.to_dict() for each in statistics]}
        write_json(unfinished / LEAK_STATISTICS_FILE, report, indent=1)
    return statistics


def read_leak_statistics(folder: Path) -> dict[str, Any] | None:
    """Read the statistics that `write_zero_shot_sets` stored: `leaked_dropped` and the statistics of all `sets`.

    Returns None if the folder has none.
    """
    path = folder / LEAK_STATISTICS_FILE
    if not path.exists():
        return None
    try:
        report = _STORED_LEAK_STATISTICS.validate_python(read_json_object(path))
    except (FolderError, ValueError):
        raise FolderError(f"{path} is damaged. Delete it, or make the test sets again.") from None
    return {"leaked_dropped": report.leaked_dropped, "sets": [each.to_dict() for each in report.sets]}


def _count_leaks(pair: tuple[str, str], leaks: Sequence[LeakedSides], num_written: int) -> ZeroShotSetStatistics:
    first, second, central = (sum(side) for side in zip(*leaks, strict=True))
    return ZeroShotSetStatistics(*pair, len(leaks), first, second, central, sum(map(any, leaks)), num_written)


def _write_test_set(folder: Path, pair: tuple[str, str], sentences: Sequence[AlignedSentence]) -> None:
    name = "-".join(pair)
    rows: list[Mapping[str, str]] = [dict(zip(pair, sentence[:2], strict=True)) for sentence in sentences]
    write_aligned_rows(folder / name, f"opus.{name}-test", pair, rows)


def normalize_for_leak_check(text: str) -> str:
    """Reduce a sentence to lower-case letters and digits for comparison; text without any is only stripped."""
    return "".join(filter(str.isalnum, text.casefold())) or text.strip()


def require_central_language(central_language: str | None) -> str:
    """Return the central language of a corpus, or raise if the setting is null."""
    if central_language is None:
        raise LanguageError("corpus.central_language: name the language that all pairs share, such as en.")
    return central_language
