"""Writes a SentencePiece model as the tokenizer.json of the tokenizers library, with the same ids for the same text.

| SentencePiece | tokenizer.json |
|---|---|
| removes or merges spaces, adds one before the text, writes them as U+2581 | normalizers |
| BPE: merges the pair whose joint piece has the best score, leftmost first | the list of merges by score |
| normalizes by replacing the longest sequence of a table | `Precompiled`, after rules for the sequences it misses |
| no piece goes beyond the space before a word | a pre-tokenizer splits there, for speed |
| unknown characters: one <unk> for adjacent ones, or bytes | `fuse_unk`, `byte_fallback` |
| symbols such as </s> never match text | `split_special_tokens` in tokenizer_config.json |
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from manyglot.errors import ManyglotError
from manyglot.exporters.charsmap import NormalizationTable
from manyglot.vocabulary.sentencepiece_file import PieceType, SentencePieceFile
from manyglot.vocabulary.subword_model import EOS, PAD, UNK

SPACE = "\u2581"
"""SentencePiece's symbol for a space."""


def make_tokenizer(
    file: SentencePieceFile, names: Sequence[str], *, source_tags: Iterable[str], special_tags: Iterable[str]
) -> dict[str, Any]:
    """Return the content of tokenizer.json.

    `names` has a name for each of our ids: the pieces, whose special symbols may have other names, and the tags. Source
    tags are recognized in the text. Special tags are not, and decoding skips them.
    """
    _check_supported(file)
    ids = {name: i for i, name in enumerate(names)}
    control = [piece.text for piece in file.pieces if piece.type == PieceType.CONTROL and piece.text in ids]
    special = sorted({*(ids[name] for name in (*control, *special_tags)), PAD, EOS, UNK})
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            *(_added_token(i, names[i], is_special=True) for i in special),
            *(_added_token(ids[tag], tag, is_special=False) for tag in source_tags),
        ],
        "normalizer": {"type": "Sequence", "normalizers": list(_normalizers(file))},
        "pre_tokenizer": _pre_tokenizer(file, names),
        "post_processor": _post_processor(names[EOS]),
        "decoder": {"type": "Sequence", "decoders": list(_decoders(file))},
        "model": _bpe(file, ids, names) if file.algorithm == "bpe" else _unigram(file, names),
    }


def _check_supported(file: SentencePieceFile) -> None:
    if file.algorithm not in ("bpe", "unigram"):
        raise ManyglotError(f"A SentencePiece model of type {file.algorithm} has no counterpart in transformers.")
    if file.whitespace_is_suffix or not file.escape_whitespaces:
        raise ManyglotError(
            "A SentencePiece model whose spaces end words, or are not escaped, has no counterpart in transformers."
        )
    if any(piece.type == PieceType.USER_DEFINED for piece in file.pieces):
        raise ManyglotError("A SentencePiece model with user-defined symbols has no exact counterpart in transformers.")


def _added_token(token_id: int, name: str, *, is_special: bool) -> dict[str, Any]:
    matching = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    return {"id": token_id, "content": name, **matching, "special": is_special}


def _normalizers(file: SentencePieceFile) -> Iterable[dict[str, Any]]:
    if file.charsmap:
        for text, replacement in NormalizationTable(file.charsmap).compositions():
            yield _replace({"String": text}, replacement)
        yield {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(file.charsmap).decode()}
    if file.remove_extra_whitespaces:
        yield _replace({"Regex": r"\A +"}, "")
        yield _replace({"Regex": " {2,}"}, " ")
    if file.add_dummy_prefix:
        yield {"type": "Prepend", "prepend": SPACE}
    yield _replace({"String": " "}, SPACE)
    if file.remove_extra_whitespaces:
        yield _replace({"Regex": rf"{SPACE}+\z"}, "")


def _replace(pattern: Mapping[str, str], content: str) -> dict[str, Any]:
    return {"type": "Replace", "pattern": pattern, "content": content}


def _pre_tokenizer(file: SentencePieceFile, names: Sequence[str]) -> dict[str, Any] | None:
    """Split before each space, unless pieces go beyond spaces. A unigram model must not find symbols in the text."""
    texts = {piece.text for piece in file.pieces if piece.type == PieceType.NORMAL}
    steps: list[dict[str, Any]] = []
    if SPACE in texts and not any(SPACE in text[1:] for text in texts):
        steps.append({"type": "Metaspace", "replacement": SPACE, "prepend_scheme": "never", "split": True})
    if file.algorithm == "unigram":
        symbols = [name for name in names if name not in texts]
        first, rest = sorted({name[0] for name in symbols}), (name[1:] for name in symbols)
        pattern = f"(?<=[{re.escape(''.join(first))}])(?={'|'.join(map(re.escape, rest))})"
        split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
        steps.append(split)
    return {"type": "Sequence", "pretokenizers": steps} if steps else None


def _post_processor(end: str) -> dict[str, Any]:
    def sequence(name: str, type_id: int) -> list[dict[str, Any]]:
        return [
            {"Sequence": {"id": name, "type_id": type_id}},
            {"SpecialToken": {"id": end, "type_id": type_id}},
        ]

    return {
        "type": "TemplateProcessing",
        "single": sequence("A", 0),
        "pair": [*sequence("A", 0), *sequence("B", 0)],
        "special_tokens": {end: {"id": end, "ids": [EOS], "tokens": [end]}},
    }


def _decoders(file: SentencePieceFile) -> Iterable[dict[str, Any]]:
    if file.byte_fallback:
        yield {"type": "ByteFallback"}
    yield _replace({"String": SPACE}, " ")
    yield {"type": "Fuse"}
    if file.remove_extra_whitespaces or file.add_dummy_prefix:
        num_spaces = 10**6 if file.remove_extra_whitespaces else 1
        yield {"type": "Strip", "content": " ", "start": num_spaces, "stop": 0}


def _bpe(file: SentencePieceFile, ids: Mapping[str, int], names: Sequence[str]) -> dict[str, Any]:
    return {
        "type": "BPE",
        "dropout": None,
        "unk_token": names[UNK],
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
        "fuse_unk": True,
        "byte_fallback": file.byte_fallback,
        "ignore_merges": False,
        "vocab": ids,
        "merges": _merges(file),
    }


def _merges(file: SentencePieceFile) -> list[tuple[str, str]]:
    """Return all pairs of pieces that form a piece, those with the best score first."""
    normal = {piece.text: piece.score for piece in file.pieces if piece.type == PieceType.NORMAL}
    return [
        (piece[:length], piece[length:])
        for piece in sorted(normal, key=lambda piece: -normal[piece])
        for length in range(1, len(piece))
        if piece[:length] in normal and piece[length:] in normal
    ]


def _unigram(file: SentencePieceFile, names: Sequence[str]) -> dict[str, Any]:
    scores = {piece.text: piece.score for piece in file.pieces}
    return {
        "type": "Unigram",
        "unk_id": UNK,
        "vocab": [(name, scores.get(name, 0.0)) for name in names],
        "byte_fallback": file.byte_fallback,
    }
