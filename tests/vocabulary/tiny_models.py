"""Tiny SentencePiece models and tokenizers for tests of the kinds of subword models."""

from __future__ import annotations

import io
import json
from functools import cache
from typing import Any

import sentencepiece

TEXT = ["die Katze schläft", "the cat sleeps 2024 times", "кошка спит", "猫は眠る", "a b c d e f g"] * 4


@cache
def tiny_sentencepiece(size: int = 120, model_type: str = "bpe", text: tuple[str, ...] = tuple(TEXT)) -> bytes:
    """Return a SentencePiece model with the symbols of fairseq: <unk>, <s> and </s>."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.Train(
        sentence_iterator=iter(text),
        model_writer=model,
        model_type=model_type,
        vocab_size=size,
        hard_vocab_limit=False,
        character_coverage=1.0,
        minloglevel=2,
    )
    return model.getvalue()


def pieces_of(model: bytes) -> list[str]:
    """Return the pieces of a SentencePiece model without its symbols."""
    processor = sentencepiece.SentencePieceProcessor()
    processor.LoadFromSerializedProto(model)
    return [processor.IdToPiece(i) for i in range(3, processor.GetPieceSize())]


def tiny_tokenizer_json(tags: tuple[str, ...] = ("deu_Latn", "eng_Latn")) -> bytes:
    """Return a tokenizer.json as that of NLLB-200: BPE, spaces as ▁, and language codes as special tokens."""
    pieces = [
        "<s>",
        "<pad>",
        "</s>",
        "<unk>",
        "▁",
        "▁c",
        "at",
        "▁cat",
        "a",
        "c",
        "t",
        "s",
        "e",
        "l",
        "p",
        "<",
        "/",
        ">",
    ]
    special = [*pieces[:4], *tags, "<mask>"]
    vocab = {piece: i for i, piece in enumerate(pieces)}
    ids = vocab | {tag: len(pieces) + i for i, tag in enumerate((*tags, "<mask>"))}
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    values: dict[str, Any] = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [{"id": ids[piece], "content": piece, **flags} for piece in special],
        "normalizer": {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "},
        "pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True},
        "post_processor": None,
        "decoder": None,
        "model": {
            "type": "BPE",
            "unk_token": "<unk>",
            "fuse_unk": True,
            "vocab": vocab,
            "merges": [["▁", "c"], ["a", "t"], ["▁c", "at"]],
        },
    }
    return json.dumps(values).encode("utf-8")
