"""The files that split text into pieces, SentencePiece models and tokenizer.json, and how to remove pieces from them.

A file without some of its pieces splits any text that does not use these pieces exactly as before, if the file keeps
the pieces that the others require. A BPE piece requires all pieces of its merge path, because the merges inside a piece
precede it and have the same order in any text. A unigram model requires the pieces with the lowest and the highest
score, which determine the scores of unknown characters and of user-defined symbols.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Set
from itertools import pairwise
from typing import Any, Protocol

from manyglot.vocabulary.sentencepiece_file import PieceType, SentencePieceFile, remove_pieces


class TokenizerFile(Protocol):
    """A file that splits text into pieces."""

    def required_pieces(self, pieces: Set[str]) -> set[str]:
        """Return the pieces that the file requires to split text into these pieces as before."""

    def without(self, pieces: Set[str]) -> bytes:
        """Return the content of the file without some pieces. Symbols that are not text remain."""


def merge_path(piece: str, rank: Callable[[str, str], float | None]) -> Iterator[str]:
    """Yield the pieces that BPE merges on the way from the characters of a piece to the piece itself.

    `rank` orders the merges of two pieces. If it is None, they do not merge. Of equal pairs, the leftmost merges first.
    """
    parts = list(piece)
    while ranked := [(order, i) for i, pair in enumerate(pairwise(parts)) if (order := rank(*pair)) is not None]:
        _, i = min(ranked)
        parts[i : i + 2] = [parts[i] + parts[i + 1]]
        yield parts[i]


class SentencePieceTokenizerFile:
    """A SentencePiece model."""

    def __init__(self, serialized: bytes) -> None:
        self._serialized = serialized
        file = SentencePieceFile.parse(serialized)
        self._algorithm, self._pieces = file.algorithm, file.pieces
        self._scores = {
            piece.text: piece.score
            for piece in file.pieces
            if piece.type in (PieceType.NORMAL, PieceType.USER_DEFINED, PieceType.UNUSED)
        }

    def required_pieces(self, pieces: Set[str]) -> set[str]:
        """Return the pieces that the algorithm requires, and all pieces that are not normal, such as bytes."""
        normal = {piece.text: piece.score for piece in self._pieces if piece.type == PieceType.NORMAL}
        others = {piece.text for piece in self._pieces if piece.type != PieceType.NORMAL}
        match self._algorithm:
            case "bpe":
                return others.union(*(merge_path(piece, self._rank) for piece in pieces & normal.keys()))
            case "unigram":
                return others | _extremes(normal)
            case _:  # whole words or characters, which nothing can replace
                return others | normal.keys()

    def without(self, pieces: Set[str]) -> bytes:
        """Return the model without some of its normal pieces."""
        return remove_pieces(self._serialized, pieces)

    def _rank(self, left: str, right: str) -> float | None:
        score = self._scores.get(left + right)
        return None if score is None else -score


class TokenizerJsonFile:
    """A tokenizer.json with BPE or a unigram model."""

    def __init__(self, content: bytes) -> None:
        self._values: Mapping[str, Any] = json.loads(content)
        self._model: Mapping[str, Any] = self._values["model"]
        self._is_unigram = isinstance(self._model["vocab"], list)
        # A merge is a list of two pieces; in older files it is one text.
        pairs = (merge.split(" ") if isinstance(merge, str) else merge for merge in self._model.get("merges", ()))
        self._ranks = {(left, right): order for order, (left, right) in enumerate(pairs)}

    def required_pieces(self, pieces: Set[str]) -> set[str]:
        """Return the pieces that the algorithm requires, and the added tokens that occur in text."""
        added = {token["content"] for token in self._values["added_tokens"] if not token["special"]}
        if self._is_unigram:
            return added | _extremes(dict(self._model["vocab"]))
        return added.union(*(merge_path(piece, lambda *pair: self._ranks.get(pair)) for piece in pieces))

    def without(self, pieces: Set[str]) -> bytes:
        """Return the content without some pieces, and without special tokens that are not part of the model."""
        model = dict(self._model)
        if self._is_unigram:
            unknown = self._model["vocab"][self._model["unk_id"]][0]
            model["vocab"] = [entry for entry in self._model["vocab"] if entry[0] not in pieces]
            ids = {piece: i for i, (piece, _) in enumerate(model["vocab"])}
            model["unk_id"] = ids[unknown]
        else:
            old_ids: Mapping[str, int] = self._model["vocab"]
            kept = (piece for piece in sorted(old_ids, key=lambda piece: old_ids[piece]) if piece not in pieces)
            ids = {piece: i for i, piece in enumerate(kept)}
            model["vocab"] = dict(ids)
            model["merges"] = [pair for pair in self._ranks if {*pair, "".join(pair)} <= ids.keys()]
        added = [token for token in self._values["added_tokens"] if token["content"] in ids or not token["special"]]
        added = [token | {"id": ids.setdefault(token["content"], len(ids))} for token in added]
        values = {**self._values, "model": model, "added_tokens": added}
        return json.dumps(values, ensure_ascii=False, separators=(",", ":")).encode("utf-8")


def _extremes(scores: Mapping[str, float]) -> set[str]:
    """Return the pieces with the lowest and the highest score."""
    return (
        {min(scores, key=lambda piece: scores[piece]), max(scores, key=lambda piece: scores[piece])}
        if scores
        else set()
    )
