"""Small token stores for tests, written directly from token ids."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from manyglot.batches.pair_index import PairIndex, clean_and_write_pair_index
from manyglot.batches.token_store import TokenizedSentences, TokenStore, write_token_store
from manyglot.corpus.languages import Languages, enumerate_directions

Sentences = dict[int, list[int]]
"""Subwords by row."""


def make_store(folder: Path, vocabulary: int = 100, **languages: Sentences) -> TokenStore:
    parts = []
    for code in sorted(languages):
        rows = sorted(languages[code])
        sentences = [languages[code][row] for row in rows]
        flat = [token for sentence in sentences for token in sentence]
        parts.append(
            [TokenizedSentences(np.array(rows, dtype=np.int64), np.array([len(s) for s in sentences]), np.array(flat))]
        )
    num_sentences, num_tokens = sum(len(p[0].rows) for p in parts), sum(len(p[0].tokens) for p in parts)
    write_token_store(folder, parts, num_sentences=num_sentences, num_tokens=num_tokens, vocabulary_size=vocabulary)
    return TokenStore(folder, Languages(languages), vocabulary)


def make_index(folder: Path, central_language: str | None = None, **languages: Sentences) -> PairIndex:
    store = make_store(folder, **languages)
    clean_and_write_pair_index(store, enumerate_directions(store.languages, central_language))
    return PairIndex(store)


def bilingual(folder: Path, lengths: list[list[int]]) -> PairIndex:
    """Make an index with one language per list, paired with en; both sides of a pair have the same length."""
    english: Sentences = {}
    others: dict[str, Sentences] = {}
    for number, each in enumerate(lengths):
        first = len(english)
        english |= {first + i: [3] * length for i, length in enumerate(each)}
        others[f"l{chr(97 + number)}"] = {first + i: [4] * length for i, length in enumerate(each)}
    return make_index(folder, "en", en=english, **others)
