from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from manyglot.errors import FolderError
from manyglot.vocabulary.loading import load_subword_model
from manyglot.vocabulary.piece_table_model import PieceTableModel
from manyglot.vocabulary.sentencepiece_model import SentencePieceModel
from manyglot.vocabulary.subword_file import PieceList, pack
from manyglot.vocabulary.subword_model import SubwordModel
from manyglot.vocabulary.tokenizers_model import TokenizersModel
from tests.vocabulary.tiny_models import TEXT, pieces_of, tiny_sentencepiece, tiny_tokenizer_json

SPECIAL = ["<pad>", "</s>", "<unk>"]
TABLE = PieceList([*SPECIAL, *pieces_of(tiny_sentencepiece())])
MODELS: dict[str, Callable[[], SubwordModel]] = {
    "sentencepiece": lambda: SentencePieceModel(tiny_sentencepiece()),
    "one table": lambda: PieceTableModel(TABLE, tiny_sentencepiece()),
    "two models": lambda: PieceTableModel(TABLE, tiny_sentencepiece(), tiny_sentencepiece(100, "unigram")),
    "tokenizers": lambda: TokenizersModel(PieceList([*SPECIAL, "▁", "a", "c", "t", "▁cat"]), tiny_tokenizer_json()),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_saved_model_splits_as_before(name: str, tmp_path: Path) -> None:
    model = MODELS[name]()
    model.save(tmp_path / "subwords.model")
    loaded = load_subword_model(tmp_path / "subwords.model")
    assert type(loaded) is type(model)
    assert loaded.serialized == model.serialized
    assert (loaded.pieces(), len(loaded)) == (model.pieces(), len(model))
    assert (loaded.encode(TEXT), loaded.encode_targets(TEXT)) == (model.encode(TEXT), model.encode_targets(TEXT))


PIECES = TABLE.to_json()
DAMAGED = {
    "no header": b"{" * 10_000,
    "wrong sizes": pack("piece_table", {"pieces.json": PIECES}) + b"x",
    "a negative size": b'{"kind": "piece_table", "parts": {"a": -1, "b": 1}}\n',
    "no sizes": b'{"kind": "piece_table"}\n',
    "another kind": pack("words", {}),
    "a missing part": pack("piece_table", {"pieces.json": PIECES}),
    "broken SentencePiece": pack("piece_table", {"pieces.json": PIECES, "source.spm": b"\xff" * 100}),
    "broken tokenizer": pack("tokenizers", {"pieces.json": PIECES, "tokenizer.json": b"{}"}),
    "broken JSON": pack("tokenizers", {"pieces.json": PIECES, "tokenizer.json": b"\xff"}),
    "a piece twice": pack("piece_table", {"pieces.json": b'{"pieces": ["a", "a", "b"], "special_ids": []}'}),
    "no pieces": pack("piece_table", {"pieces.json": b'{"pieces": [], "special_ids": []}'}),
    "numbers": pack("piece_table", {"pieces.json": b'{"pieces": [1, 2, 3, 4], "special_ids": []}'}),
    "lone surrogate": pack(
        "piece_table", {"pieces.json": b'{"pieces": ["a", "b", "c", "\\ud800"], "special_ids": []}'}
    ),
    "wrong special ids": pack("piece_table", {"pieces.json": b'{"pieces": ["a", "b", "c"], "special_ids": ["x"]}'}),
}


@pytest.mark.parametrize("content", DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_file_is_one_error(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "subwords.model").write_bytes(content)
    with pytest.raises(FolderError, match="is not a subword model, or it is damaged") as info:
        load_subword_model(tmp_path / "subwords.model")
    assert "\n" not in str(info.value)
    assert len(str(info.value)) < 500


def test_the_size_is_limited(tmp_path: Path) -> None:
    MODELS["two models"]().save(tmp_path / "subwords.model")
    with pytest.raises(FolderError, match="more than 100 bytes"):
        load_subword_model(tmp_path / "subwords.model", 100)
