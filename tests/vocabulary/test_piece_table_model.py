from __future__ import annotations

import pytest

from manyglot.vocabulary.piece_table_model import PieceTableModel
from manyglot.vocabulary.subword_file import PieceList
from manyglot.vocabulary.subword_model import UNK
from tests.vocabulary.tiny_models import TEXT, pieces_of, tiny_sentencepiece

SOURCE, TARGET = tiny_sentencepiece(), tiny_sentencepiece(100, "unigram")
PIECES = ["<pad>", "</s>", "<unk>", "<s>", *sorted({*pieces_of(SOURCE), *pieces_of(TARGET)}), "madeupword0"]


@pytest.fixture(scope="module")
def model() -> PieceTableModel:
    return PieceTableModel(PieceList(PIECES, frozenset({3, len(PIECES) - 1})), SOURCE, TARGET)


def test_text_round_trips_with_either_model(model: PieceTableModel) -> None:
    assert model.splits_targets_differently
    assert model.encode(TEXT) != model.encode_targets(TEXT)
    assert model.decode(model.encode(TEXT)) == TEXT
    assert model.decode(model.encode_targets(TEXT)) == TEXT


def test_ids_are_the_places_of_the_pieces_in_the_table(model: PieceTableModel) -> None:
    (ids,) = model.encode(["the cat"])
    assert "".join(model.pieces()[i] for i in ids) == "▁the▁cat"


def test_one_model_may_split_both_sides() -> None:
    model = PieceTableModel(PieceList(PIECES), SOURCE)
    assert not model.splits_targets_differently
    assert model.encode(TEXT) == model.encode_targets(TEXT)


def test_pieces_outside_the_table_are_unknown() -> None:
    model = PieceTableModel(PieceList([piece for piece in PIECES if "猫" not in piece]), SOURCE)
    assert UNK in model.encode(["猫"])[0]
    assert model.unknown_characters("a 猫 c") == ["猫"]
    assert model.unknown_characters("a c") == []


def test_special_pieces_decode_to_nothing_and_no_text_encodes_to_them(model: PieceTableModel) -> None:
    cat = model.encode(["cat"])[0]
    assert model.decode([[0, 3, *cat, len(PIECES) - 1, 1], []]) == ["cat", ""]
    assert not {0, 1, 3, len(PIECES) - 1} & set(model.encode(["<s> </s> <pad> madeupword0"])[0])
