from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from manyglot.errors import FolderError
from manyglot.vocabulary.subword_file import PieceList
from manyglot.vocabulary.subword_model import UNK
from manyglot.vocabulary.tokenizers_model import TokenizersModel, reduce_tokenizer_json
from tests.vocabulary.tiny_models import tiny_tokenizer_json

pytest.importorskip("tokenizers")
PIECES = ["<pad>", "</s>", "<unk>", "<s>", "▁", "▁c", "at", "▁cat", "a", "c", "t", "s", "e", "l", "p", "<", "/", ">"]


@pytest.fixture(scope="module")
def model() -> TokenizersModel:
    return TokenizersModel(PieceList([*PIECES, "unused"], frozenset({3, len(PIECES)})), tiny_tokenizer_json())


def test_text_round_trips_with_our_ids(model: TokenizersModel) -> None:
    ids = model.encode(["cat  sleeps", ""])
    assert [[PIECES[i] for i in sentence] for sentence in ids] == [["▁cat", "▁", "s", "l", "e", "e", "p", "s"], []]
    assert model.decode([*ids, []]) == ["cat sleeps", "", ""]
    assert len(model) == len(model.pieces()) == len(PIECES) + 1


def test_special_tokens_and_language_codes_in_a_text_are_text(model: TokenizersModel) -> None:
    (ids,) = model.encode(["</s>"])
    assert "".join(PIECES[i] for i in ids) == "▁</s>"
    assert UNK in model.encode(["deu_Latn"])[0]
    assert model.unknown_characters("cäcl") == ["ä"]


def test_a_piece_that_text_can_reach_but_that_has_no_id_is_unknown() -> None:
    """A Unigram model of MBart-50 has its language codes among its pieces."""
    values = json.loads(tiny_tokenizer_json())
    vocab = [[piece, -1.0] for piece in [*PIECES[3:4], *PIECES[:3], *PIECES[4:]]] + [["de_DE", 0.0]]
    values["model"] = {"type": "Unigram", "unk_id": 3, "vocab": vocab}
    values["added_tokens"] = []
    model = TokenizersModel(PieceList(PIECES), json.dumps(values).encode())
    assert model.encode(["cat de_DE"])[0][-1] == UNK


DEFECTS: dict[str, tuple[dict[str, Any], str]] = {
    "no model": ({"model": None}, "no model"),
    "another model": ({"model": {"type": "WordPiece", "vocab": {}}}, "only models of the types"),
    "bytes": ({"model": {"type": "BPE", "vocab": {}, "merges": [], "byte_fallback": True}}, "without bytes"),
    "no spaces": ({"pre_tokenizer": None}, "mark spaces"),
    "another normalizer": ({"normalizer": {"type": "BertNormalizer"}}, "BertNormalizer"),
    "a slow pattern": ({"normalizer": {"type": "Replace", "pattern": {"Regex": "(a+)+$"}, "content": ""}}, "pattern"),
    "a long replacement": ({"normalizer": {"type": "Prepend", "prepend": "x" * 100}}, "long text"),
    "nested sequences": ({"normalizer": {"type": "Sequence", "normalizers": [{"type": "Sequence"}]}}, "damaged"),
    "a wrong type": ({"normalizer": [1]}, "damaged"),
    "a merge of unknown pieces": (
        {"model": {"type": "BPE", "vocab": {"a": 0}, "merges": [["x", "y"]]}},
        "x",
    ),
    "a broken map": ({"normalizer": {"type": "Precompiled", "precompiled_charsmap": "AAAA"}}, "character map"),
}


@pytest.mark.parametrize(("changes", "message"), DEFECTS.values(), ids=DEFECTS)
def test_unsuitable_tokenizers_are_refused(changes: dict[str, Any], message: str) -> None:
    values = json.loads(tiny_tokenizer_json()) | changes
    with pytest.raises(ValueError, match=message):
        TokenizersModel(PieceList(PIECES), json.dumps(values).encode())


def test_a_panic_of_the_library_is_an_error(model: TokenizersModel, monkeypatch: pytest.MonkeyPatch) -> None:
    class PanicException(BaseException):
        pass

    def panic(*_: object, **__: object) -> None:
        raise PanicException("index out of range")

    monkeypatch.setattr(model, "_tokenizer", SimpleNamespace(encode_batch=panic))
    with pytest.raises(FolderError, match=r"cannot split a text \(index out of range\)"):
        model.encode(["cat"])


def test_only_what_splits_text_is_stored() -> None:
    values = json.loads(tiny_tokenizer_json())
    values["post_processor"] = values["decoder"] = {"type": "ByteLevel"}
    values["truncation"] = {"max_length": 1, "direction": "Right", "strategy": "LongestFirst", "stride": 0}
    reduced = reduce_tokenizer_json(json.dumps(values).encode())
    assert reduced == reduce_tokenizer_json(tiny_tokenizer_json()) == reduce_tokenizer_json(reduced)
