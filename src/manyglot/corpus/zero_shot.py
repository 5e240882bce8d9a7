"""Test sets for directions that no corpus has, by the language that all pairs share, and what leaks.

An English-centric corpus has German with English and French with English. Where the English side is the same but for
white space, the German and the French are translations of each other: so the paper makes 3,306 test sets of the TED
talks. A sentence that stands there several times gives all combinations.

Such a set is only worth something if training has not seen its sentences. A test sentence leaks if its source, its
target or its English occurs in the training text of that language, case and punctuation aside.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations, product
from pathlib import Path
from typing import Any, NamedTuple

from manyglot.corpus.rows import Row
from manyglot.corpus.textfiles import write_aligned
from manyglot.errors import CorpusError, FolderError, LanguageError
from manyglot.files import written_whole

LEAKS = "leaks.json"
"""Beside the sets: how much of them training has seen."""


class Aligned(NamedTuple):
    """A sentence in two languages, found by a third."""

    one: str
    other: str
    pivot: str


class ZeroShotTests:
    """The sentences of all pairs of languages but those with the pivot, or, if `supervised`, with these."""

    def __init__(self, rows: Iterable[Row], pivot: str, distinct: bool = False, supervised: bool = False) -> None:
        self.pivot = pivot
        self._groups: dict[str, dict[str, list[str]]] = defaultdict(dict)
        """The sentences of each language, by the pivot's."""
        for row in rows:
            if pivot in row:
                group = self._groups[" ".join(row[pivot].split())]
                for code, text in row.items():
                    if code != pivot:
                        group.setdefault(code, []).append(text)
        if distinct:
            for group in self._groups.values():
                group |= {code: list(dict.fromkeys(texts)) for code, texts in group.items()}
        self.languages = tuple(sorted({code for group in self._groups.values() for code in group}))
        if len(self.languages) < 2:
            raise CorpusError(f"There is no test text of two languages with the same sentences in '{pivot}'.")
        if supervised:
            self.languages = tuple(sorted({*self.languages, pivot}))
            for text, group in self._groups.items():
                group[pivot] = [text]

    def pairs(self) -> list[tuple[str, str]]:
        """The pairs of languages, each once."""
        return list(combinations(self.languages, 2))

    def sentences(self, one: str, other: str) -> Iterator[Aligned]:
        """All combinations of translations of the same sentence."""
        for pivot, group in self._groups.items():
            if one in group and other in group:
                yield from (Aligned(a, b, pivot) for a, b in product(group[one], group[other]))

    def texts(self) -> dict[str, set[str]]:
        """Every sentence, by language."""
        found: dict[str, set[str]] = {self.pivot: set(self._groups)}
        for group in self._groups.values():
            for code, texts in group.items():
                found.setdefault(code, set()).update(texts)
        return found


class Leaks:
    """The test sentences that occur in training."""

    def __init__(self, tests: ZeroShotTests, training: Iterable[Row]) -> None:
        keys = {code: {text: key_of(text) for text in texts} for code, texts in tests.texts().items()}
        wanted = {code: set(each.values()) for code, each in keys.items()}
        seen: dict[str, set[str]] = {code: set() for code in wanted}
        for row in training:
            for code, text in row.items():
                if code in wanted and (key := key_of(text)) in wanted[code]:
                    seen[code].add(key)
        self._pivot = tests.pivot
        self._texts = {code: {text for text, key in each.items() if key in seen[code]} for code, each in keys.items()}

    def sides(self, pair: tuple[str, str], sentence: Aligned) -> tuple[bool, bool, bool]:
        """Whether training has seen the one side, the other, the pivot's."""
        one, other = pair
        texts = self._texts
        return sentence.one in texts[one], sentence.other in texts[other], sentence.pivot in texts[self._pivot]


@dataclass(frozen=True)
class SetFacts:
    """How large one test set is, and how much of it training has seen."""

    one: str
    other: str
    num_sentences: int
    """As they were found."""
    one_leaked: int
    other_leaked: int
    pivot_leaked: int
    leaked: int
    """By any of the three."""
    written: int

    def as_json(self) -> dict[str, str | int]:
        """Plain values."""
        return asdict(self)


def write_tests(
    folder: Path, tests: ZeroShotTests, leaks: Leaks, drop_leaked: bool = False, most: int | None = None
) -> list[SetFacts]:
    """Write a pair of files for each pair of languages that has sentences, as OPUS-100 names them.

    In a folder `zero-shot` of a corpus of kind pairs, they are part of it. What leaks is written beside them.
    """
    facts = []
    with written_whole(folder) as unfinished:
        for pair in tests.pairs():
            judged = [(sentence, leaks.sides(pair, sentence)) for sentence in tests.sentences(*pair)]
            kept = [sentence for sentence, sides in judged if not (drop_leaked and any(sides))][:most]
            if judged:
                facts.append(_facts(pair, [sides for _, sides in judged], len(kept)))
            if kept:
                _write(unfinished, pair, kept)
        if not facts:
            raise CorpusError(f"No two languages have a test sentence in common by '{tests.pivot}'.")
        told = {"left_out": drop_leaked, "sets": [each.as_json() for each in facts]}
        (unfinished / LEAKS).write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    return facts


def read_leaks(folder: Path) -> dict[str, Any] | None:
    """What `write_tests` found out about a folder of test sets: `left_out` and the facts of all `sets`."""
    try:
        told = json.loads((folder / LEAKS).read_text("utf-8"))
        return {"left_out": bool(told["left_out"]), "sets": [asdict(SetFacts(**each)) for each in told["sets"]]}
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError):
        raise FolderError(f"{folder / LEAKS} is damaged. Delete it, or make the sets again.") from None


def _facts(pair: tuple[str, str], sides: Sequence[tuple[bool, bool, bool]], written: int) -> SetFacts:
    one, other, pivot = (sum(each[i] for each in sides) for i in range(3))
    return SetFacts(*pair, len(sides), one, other, pivot, sum(map(any, sides)), written)


def _write(folder: Path, pair: tuple[str, str], sentences: Sequence[Aligned]) -> None:
    name = "-".join(pair)
    rows: list[Mapping[str, str]] = [dict(zip(pair, sentence[:2], strict=True)) for sentence in sentences]
    write_aligned(folder / name, f"opus.{name}-test", pair, rows)


def key_of(text: str) -> str:
    """A sentence without case, space and punctuation; one of nothing else stays as it is."""
    return "".join(filter(str.isalnum, text.casefold())) or text.strip()


def pivot_of(pivot: str | None) -> str:
    """The shared language of a corpus, without which there is nothing to go by."""
    if pivot is None:
        raise LanguageError("corpus.pivot: name the language that all pairs share, such as en.")
    return pivot
