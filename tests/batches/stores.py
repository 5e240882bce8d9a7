"""Small stores for tests, written straight from numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from manyglot.batches.pairs import PairsIndex, write_pairs
from manyglot.batches.store import Part, TokenStore, write_store
from manyglot.corpus.languages import Languages, directions_of

Sentences = dict[int, list[int]]
"""Subwords by row."""


def make_store(folder: Path, vocabulary: int = 100, **languages: Sentences) -> TokenStore:
    parts = []
    for code in sorted(languages):
        rows = sorted(languages[code])
        sentences = [languages[code][row] for row in rows]
        flat = [token for sentence in sentences for token in sentence]
        parts.append([Part(np.array(rows, dtype=np.int64), np.array([len(s) for s in sentences]), np.array(flat))])
    sizes = sum(len(p[0].rows) for p in parts), sum(len(p[0].tokens) for p in parts)
    write_store(folder, parts, sizes, vocabulary)
    return TokenStore(folder, Languages(languages))


def make_index(folder: Path, pivot: str | None = None, **languages: Sentences) -> PairsIndex:
    store = make_store(folder, **languages)
    write_pairs(store, directions_of(store.languages, pivot))
    return PairsIndex(store)


def bilingual(folder: Path, lengths: list[list[int]]) -> PairsIndex:
    """A language for each list, paired with en; each sentence pair has one length on both sides."""
    english: Sentences = {}
    others: dict[str, Sentences] = {}
    for number, each in enumerate(lengths):
        first = len(english)
        english |= {first + i: [3] * length for i, length in enumerate(each)}
        others[f"l{chr(97 + number)}"] = {first + i: [4] * length for i, length in enumerate(each)}
    return make_index(folder, "en", en=english, **others)
