"""What is read from a SentencePiece file is what the sentencepiece library says."""

from __future__ import annotations

import io
from typing import Any

import pytest
import sentencepiece

from manyglot.errors import FolderError
from manyglot.vocabulary.sentencepiece_file import PieceType, SentencePieceFile, remove_pieces

TEXT = ["the cat sat on the mat", "a bat and a rat", "12 cats and 3 bats", "that hat is flat"] * 9


def train(**options: Any) -> bytes:
    model = io.BytesIO()
    defaults = {"vocab_size": 40, "model_type": "bpe", "hard_vocab_limit": False, "minloglevel": 2}
    sentencepiece.SentencePieceTrainer.Train(sentence_iterator=iter(TEXT), model_writer=model, **(defaults | options))
    return model.getvalue()


@pytest.mark.parametrize("algorithm", ["bpe", "unigram", "word", "char"])
def test_pieces_and_settings(algorithm: str) -> None:
    serialized = train(
        model_type=algorithm,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        user_defined_symbols=["<sep>"],
    )
    processor = sentencepiece.SentencePieceProcessor()
    processor.LoadFromSerializedProto(serialized)
    file = SentencePieceFile.parse(serialized)
    assert [piece.text for piece in file.pieces] == [processor.IdToPiece(i) for i in range(len(processor))]
    assert [piece.score for piece in file.pieces] == [processor.GetScore(i) for i in range(len(processor))]
    assert [i for i, piece in enumerate(file.pieces) if piece.type == PieceType.CONTROL] == [
        i for i in range(len(processor)) if processor.IsControl(i)
    ]
    assert file.pieces[processor.PieceToId("<sep>")].type == PieceType.USER_DEFINED
    assert (file.algorithm, file.charsmap, file.remove_extra_whitespaces) == (algorithm, b"", False)
    assert (file.add_dummy_prefix, file.escape_whitespaces, file.whitespace_is_suffix) == (True, True, False)


def test_defaults_of_sentencepiece() -> None:
    file = SentencePieceFile.parse(train(byte_fallback=True, vocab_size=300))
    assert file.byte_fallback
    assert file.remove_extra_whitespaces
    assert len(file.charsmap) > 100_000
    assert sum(piece.type == PieceType.BYTE for piece in file.pieces) == 256


def test_normal_pieces_are_removed() -> None:
    serialized = train(model_type="bpe", user_defined_symbols=["<sep>"], self_test_sample_size=3)
    texts = [piece.text for piece in SentencePieceFile.parse(serialized).pieces]
    normal = [piece.text for piece in SentencePieceFile.parse(serialized).pieces if piece.type == PieceType.NORMAL]
    removed = {*normal[::2], "<sep>", "<unk>"}
    smaller = remove_pieces(serialized, removed)
    assert [piece.text for piece in SentencePieceFile.parse(smaller).pieces] == [
        text for text in texts if text not in normal[::2]
    ]
    processor = sentencepiece.SentencePieceProcessor()
    processor.LoadFromSerializedProto(smaller)  # it would fail its own test
    without_test = remove_pieces(serialized, set())
    assert remove_pieces(without_test, set()) == without_test


@pytest.mark.parametrize("damaged", [b"\xff", b"\x0a\xff\xff", b"\x0b", b"\x0a\x02\x0a\x05"])
def test_damage_is_one_error(damaged: bytes) -> None:
    with pytest.raises(FolderError, match="damaged"):
        SentencePieceFile.parse(damaged)
