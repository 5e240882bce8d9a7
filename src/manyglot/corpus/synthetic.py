"""Synthetic languages: random lexicons and grammars with known typology that a model learns in a minute.

A sentence expresses a meaning (who does what to whom). Each language writes it with its own words, word order and
affixes. The languages of a family descend from one lexicon by sound changes, so related languages look similar. The
grammar is the ground truth that probing should recover and that a good translation must get right.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Literal

from pydantic import Field

from manyglot.corpus.base import MAX_GENERATED_ROWS, BaseCorpusSettings, Row, Split, take_split

WORD_ORDERS = ("SVO", "SOV", "VSO")
CONSONANTS = "ptkbdgmnszlrfvh"
VOWELS = "aeiou"
NUM_NOUNS, NUM_VERBS, NUM_ADJECTIVES = 30, 15, 10


class SyntheticSettings(BaseCorpusSettings):
    """Synthetic languages with known grammars, for tests and tutorials."""

    kind: Literal["synthetic"] = "synthetic"
    """The kind of corpus: synthetic languages."""
    num_languages: int = Field(6, ge=2, le=520)
    """Number of languages. Their codes are the private-use codes qaa, qab, …"""
    num_families: int = Field(2, ge=1, le=520)
    """Number of language families. The languages of a family share word roots, altered by sound changes."""
    central_language: str | None = "qaa"
    """Train only to and from this language; null trains on all pairs."""
    train_rows: int = Field(2000, ge=1, le=MAX_GENERATED_ROWS)
    """Training sentences; each is written in all languages."""
    dev_rows: int = Field(100, ge=0, le=MAX_GENERATED_ROWS)
    """Dev sentences, for validation during training."""
    test_rows: int = Field(100, ge=0, le=MAX_GENERATED_ROWS)
    """Test sentences, for evaluation."""

    def split_sizes(self) -> dict[Split, int]:
        """The number of rows of each split."""
        return {Split.TRAIN: self.train_rows, Split.DEV: self.dev_rows, Split.TEST: self.test_rows}


@dataclass(frozen=True)
class Grammar:
    """The typological features of a language."""

    word_order: str
    adjective_first: bool
    plural_prefix: bool
    object_marked: bool

    def binary_features(self) -> dict[str, bool]:
        """The grammar as binary features, as in typological databases."""
        orders = {f"order_{order}": self.word_order == order for order in WORD_ORDERS}
        return orders | {k: v for k, v in asdict(self).items() if isinstance(v, bool)}


@dataclass(frozen=True)
class NounPhrase:
    """A noun by index, with an optional adjective, singular or plural."""

    noun: int
    adjective: int | None
    plural: bool


@dataclass(frozen=True)
class Clause:
    """The meaning of a sentence: a subject does something to an object."""

    subject: NounPhrase
    verb: int
    object: NounPhrase


@dataclass(frozen=True)
class SyntheticLanguage:
    """A grammar and a lexicon that turn clauses into sentences."""

    code: str
    family: int
    grammar: Grammar
    nouns: tuple[str, ...]
    verbs: tuple[str, ...]
    adjectives: tuple[str, ...]
    plural_affix: str
    object_affix: str

    def realize_clause(self, clause: Clause) -> str:
        """Write a clause as a sentence of this language."""
        parts = {
            "S": self._noun_phrase(clause.subject, ""),
            "V": [self.verbs[clause.verb]],
            "O": self._noun_phrase(clause.object, self.object_affix if self.grammar.object_marked else ""),
        }
        return " ".join(word for role in self.grammar.word_order for word in parts[role])

    def _noun_phrase(self, phrase: NounPhrase, case: str) -> list[str]:
        noun = self.nouns[phrase.noun]
        if phrase.plural:
            noun = self.plural_affix + noun if self.grammar.plural_prefix else noun + self.plural_affix
        words = [noun + case]
        if phrase.adjective is not None:
            words.insert(0 if self.grammar.adjective_first else 1, self.adjectives[phrase.adjective])
        return words


class SyntheticCorpus:
    """Rows with the same clause in every language."""

    def __init__(self, settings: SyntheticSettings) -> None:
        self.settings = settings
        self.synthetic_languages = make_synthetic_languages(settings)
        self.languages = tuple(language.code for language in self.synthetic_languages)

    def rows(self, split: Split) -> Iterator[Row]:
        """Write the clauses of a split. No clause occurs in two splits."""
        for clause in take_split(_distinct_clauses(), split, self.settings.split_sizes()):
            yield {language.code: language.realize_clause(clause) for language in self.synthetic_languages}

    def fingerprint(self) -> str:
        """A constant, because the text depends on nothing but the settings."""
        return "synthetic"


def make_synthetic_languages(settings: SyntheticSettings) -> tuple[SyntheticLanguage, ...]:
    """Sample the languages: one proto-lexicon per family, and sound changes and a grammar per language."""
    rng = random.Random("languages 1")
    num_words = NUM_NOUNS + NUM_VERBS + NUM_ADJECTIVES
    proto_lexicons = [_sample_words(rng, num_words) for _ in range(settings.num_families)]
    codes = ("q" + a + b for a, b in itertools.product("abcdefghijklmnopqrst", "abcdefghijklmnopqrstuvwxyz"))
    return tuple(
        _sample_language(rng, code, i % settings.num_families, proto_lexicons[i % settings.num_families])
        for i, code in zip(range(settings.num_languages), codes, strict=False)
    )


def _sample_language(rng: random.Random, code: str, family: int, proto_lexicon: Sequence[str]) -> SyntheticLanguage:
    sound_changes = str.maketrans(VOWELS + CONSONANTS, _shuffled(rng, VOWELS) + _shuffled(rng, CONSONANTS))
    words = [word.translate(sound_changes) for word in proto_lexicon]
    affixes = _sample_words(rng, 2, num_syllables=1)
    return SyntheticLanguage(
        code=code,
        family=family,
        grammar=Grammar(rng.choice(WORD_ORDERS), *(rng.random() < 0.5 for _ in range(3))),
        nouns=tuple(words[:NUM_NOUNS]),
        verbs=tuple(words[NUM_NOUNS : NUM_NOUNS + NUM_VERBS]),
        adjectives=tuple(words[NUM_NOUNS + NUM_VERBS :]),
        plural_affix=affixes[0],
        object_affix=affixes[1],
    )


def _sample_words(rng: random.Random, num_words: int, num_syllables: int = 2) -> list[str]:
    words: dict[str, None] = {}  # a dict keeps the sampling order; a set would not be reproducible
    while len(words) < num_words:
        words["".join(rng.choice(CONSONANTS) + rng.choice(VOWELS) for _ in range(num_syllables))] = None
    return list(words)


def _shuffled(rng: random.Random, letters: str) -> str:
    return "".join(rng.sample(letters, len(letters)))


def _distinct_clauses() -> Iterator[Clause]:
    rng = random.Random("clauses 1")
    seen: set[Clause] = set()
    while True:
        clause = Clause(_sample_noun_phrase(rng), rng.randrange(NUM_VERBS), _sample_noun_phrase(rng))
        if clause not in seen:
            seen.add(clause)
            yield clause


def _sample_noun_phrase(rng: random.Random) -> NounPhrase:
    adjective = rng.randrange(NUM_ADJECTIVES) if rng.random() < 0.5 else None
    return NounPhrase(rng.randrange(NUM_NOUNS), adjective, rng.random() < 0.5)
