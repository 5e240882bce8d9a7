"""Look at a corpus before anything is built from it: how much there is of what, and what may be wrong with it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from manyglot.corpus.languages import Direction, Languages
from manyglot.corpus.rows import Corpus, Row, Split
from manyglot.corpus.scripts import script_of, share_in_script
from manyglot.errors import ManyglotError

LOOKED_AT = 5000
"""Sentences of a language whose script is looked at."""
REMEMBERED = 1_000_000
"""Sentences of a language among which repetitions are found."""
MANY = 0.05
"""A share from which on something is a problem worth a line."""


@dataclass
class LanguageFacts:
    """What one split has in one language."""

    sentences: int = 0
    characters: int = 0
    repeated: int = 0
    wrong_script: int = 0
    samples: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, object]:
        """Plain values."""
        return {
            "sentences": self.sentences,
            "characters": self.characters,
            "repeated": self.repeated,
            "wrong_script": self.wrong_script,
            "samples": self.samples,
        }


@dataclass
class Inspection:
    """What a corpus has, and what may be wrong with it."""

    languages: Languages
    rows: dict[Split, int]
    facts: dict[Split, dict[str, LanguageFacts]]
    pairs: dict[Split, Counter[Direction]]
    """Sentence pairs of the directions that are trained on."""
    errors: list[str]
    """Why some text could not be read."""
    problems: list[str]
    """What looks wrong in the text that could."""

    def as_json(self) -> dict[str, object]:
        """Plain values."""
        return {
            "languages": list(self.languages),
            "rows": dict(self.rows),
            "splits": {s: {code: f.as_json() for code, f in facts.items()} for s, facts in self.facts.items()},
            "pairs": {s: {">".join(d): n for d, n in pairs.items()} for s, pairs in self.pairs.items()},
            "errors": self.errors,
            "problems": self.problems,
        }


def inspect(corpus: Corpus, directions: Sequence[Direction], num_samples: int = 2) -> Inspection:
    """Read all splits once; what cannot be read is a problem, not an end."""
    languages = Languages(corpus.languages)
    rows = dict.fromkeys(Split, 0)
    facts = {split: {code: LanguageFacts() for code in languages} for split in Split}
    pairs: dict[Split, Counter[Direction]] = {split: Counter() for split in Split}
    errors = []
    for split in Split:
        seen: dict[str, set[int]] = {code: set() for code in languages}
        try:
            for row in corpus.rows(split):
                rows[split] += 1
                for code, sentence in row.items():
                    _note(facts[split][code], code, sentence, seen[code], num_samples)
                pairs[split].update(_pairs(row, directions))
        except ManyglotError as error:
            errors.append(str(error))
    inspection = Inspection(languages, rows, facts, pairs, errors, [])
    inspection.problems += _judge(inspection, directions)
    return inspection


def _note(facts: LanguageFacts, code: str, sentence: str, seen: set[int], num_samples: int) -> None:
    facts.sentences += 1
    facts.characters += len(sentence)
    if len(facts.samples) < num_samples:
        facts.samples.append(sentence)
    script = script_of(code)
    if script is not None and facts.sentences <= LOOKED_AT:
        facts.wrong_script += share_in_script(sentence, script) < 0.5
    if facts.sentences <= REMEMBERED:
        number = hash(sentence)
        facts.repeated += number in seen
        seen.add(number)


def _pairs(row: Row, directions: Sequence[Direction]) -> Iterator[Direction]:
    if len(row) == 2:  # a bilingual corpus has many languages and rows of two
        one, other = row
        return (d for d in (Direction(one, other), Direction(other, one)) if d in directions)
    return (d for d in directions if d.source in row and d.target in row)


def _judge(inspection: Inspection, directions: Sequence[Direction]) -> Iterator[str]:
    """Say what looks wrong, the gravest first."""
    for direction in directions:
        if not inspection.pairs[Split.TRAIN][direction]:
            yield f"There is no training text for {direction}."
    for split in (Split.DEV, Split.TEST):
        if not inspection.rows[split]:
            yield f"There is no {split} text."
        else:
            missing = [code for code in inspection.languages if not inspection.facts[split][code].sentences]
            if missing:
                yield f"There is no {split} text in {', '.join(missing)}."
    for split, facts in inspection.facts.items():
        for code, each in facts.items():
            looked_at = min(each.sentences, LOOKED_AT)
            if each.wrong_script > MANY * looked_at:
                share = each.wrong_script / looked_at
                yield f"{split}.{code}: {share:.0%} of the sentences are not in the script of the language."
            remembered = min(each.sentences, REMEMBERED)
            if each.repeated > MANY * remembered:
                yield f"{split}.{code}: {each.repeated / remembered:.0%} of the sentences are repetitions."
