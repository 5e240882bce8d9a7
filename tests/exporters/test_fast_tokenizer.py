"""An exported tokenizer splits text as SentencePiece does, and joins the pieces as it does."""

from __future__ import annotations

import io
import json
import unicodedata
from functools import cache
from typing import Any

import pytest
import sentencepiece
from hypothesis import given, settings
from hypothesis import strategies as st

from manyglot.errors import ManyglotError
from manyglot.exporters.charsmap import NormalizationTable
from manyglot.exporters.fast_tokenizer import make_tokenizer
from manyglot.vocabulary.sentencepiece_file import SentencePieceFile
from manyglot.vocabulary.sentencepiece_model import SentencePieceModel, train_subword_model
from manyglot.vocabulary.subword_model import UNK, SubwordModel, VocabularySettings

tokenizers = pytest.importorskip("tokenizers")

WORDS = ["aaa", "aab", "abab", "baba", "bbb", "abc", "cab", "cc", "c1", "12", "11", "21", "--", "---", "aaaa", "ababab"]
TEXT = [f"{a} {b}{c}" for a in WORDS for b in WORDS for c in WORDS]
TAGS = [">>de<<", ">>en<<"]
ALPHABET = "aaabbc12-  \t\u2581\u00a0éx中😀"
"""Most characters are known to the model, the last ones are not."""


def train(**options: Any) -> SubwordModel:
    """Train a model with the defaults of SentencePiece, as users may bring it."""
    model = io.BytesIO()
    defaults = {"vocab_size": 60, "model_type": "bpe", "hard_vocab_limit": False, "minloglevel": 2}
    sentencepiece.SentencePieceTrainer.Train(sentence_iterator=iter(TEXT), model_writer=model, **(defaults | options))
    return SentencePieceModel(model.getvalue())


@cache
def subword_model(name: str) -> SubwordModel:
    match name:
        case "ours":
            return train_subword_model(TEXT, VocabularySettings(size=70))
        case "bytes and digits":
            return train_subword_model(TEXT, VocabularySettings(size=330, byte_fallback=True, split_digits=True))
        case "nmt_nfkc":
            return train()
        case "spaces are kept":
            return train(remove_extra_whitespaces=False, normalization_rule_name="identity")
        case _:
            return train(model_type="unigram", split_by_whitespace=False)


MODELS = ("ours", "bytes and digits", "nmt_nfkc", "spaces are kept", "unigram")


@cache
def tokenizer(name: str) -> Any:
    model = subword_model(name)
    names = [*model.pieces(), *TAGS]
    content = make_tokenizer(
        SentencePieceFile.parse(model.serialized), names, source_tags=TAGS[:1], special_tags=TAGS[1:]
    )
    loaded = tokenizers.Tokenizer.from_str(json.dumps(content))
    loaded.encode_special_tokens = True
    return loaded


def encode(name: str, text: str) -> list[int]:
    ids: list[int] = tokenizer(name).encode(text).ids
    assert ids[-1] == 1
    return ids[:-1]


@pytest.mark.parametrize("name", MODELS[:4])
@settings(max_examples=100, deadline=None)
@given(text=st.text(ALPHABET, max_size=40))
def test_ids_and_text_equal_those_of_sentencepiece(name: str, text: str) -> None:
    model = subword_model(name)
    (ids,) = model.encode([text])
    assert encode(name, text) == ids
    if UNK not in ids:
        assert tokenizer(name).decode(ids) == model.decode([ids])[0]


@settings(max_examples=100, deadline=None)
@given(text=st.text(ALPHABET, max_size=40))
def test_ids_of_a_unigram_model_have_an_equal_score(text: str) -> None:
    """SentencePiece rounds sums of scores, so it may choose another of several equally good splits."""
    model = subword_model("unigram")
    processor = sentencepiece.SentencePieceProcessor()
    processor.LoadFromSerializedProto(model.serialized)
    scores = {processor.IdToPiece(i): processor.GetScore(i) for i in range(len(processor))}
    names, (ours,) = model.pieces(), model.encode([text])
    theirs = encode("unigram", text)
    assert ours.count(UNK) == theirs.count(UNK)
    assert sum(scores[names[i]] for i in theirs) == pytest.approx(sum(scores[names[i]] for i in ours), abs=1e-4)


@pytest.mark.parametrize("name", MODELS)
def test_unusual_text(name: str) -> None:
    texts = ["", " ", "\u2581", "  a  b ", "a" * 3000, "-" * 99, "ab" * 50, "ﬁ ① e\u0301 か\u3099", "a\nb", "\u0000a"]
    symbols = ["<pad>a</s><unk>", "<0x41>", ">>en<< a"]
    for text in [*texts, "中文中", "a \u2581 b\u2581", *(symbols if name != "unigram" else [])]:
        (ids,) = subword_model(name).encode([text])
        assert encode(name, text) == ids, text
    assert not {0, 1} & set(encode(name, symbols[0]))


def test_a_source_tag_is_read_from_the_text() -> None:
    model = subword_model("ours")
    (ids,) = model.encode(["abab 12"])
    for text in (">>de<< abab 12", ">>de<<abab 12", ">>de<<   abab 12 "):
        assert encode("ours", text) == [len(model), *ids]
    assert tokenizer("ours").decode([len(model) + 1, *ids, 1, 0]) == "abab 12"


def test_the_normalization_table_replaces_as_sentencepiece_does() -> None:
    model = subword_model("nmt_nfkc")
    table = NormalizationTable(SentencePieceFile.parse(model.serialized).charsmap)
    assert table.replacement("ﬁ") == "fi"
    assert table.replacement("a") is None
    compositions = dict(table.compositions())
    assert len(compositions) > 900
    assert compositions["か\u3099"] == "が"
    assert all(unicodedata.normalize("NFC", text) == character for text, character in compositions.items())


def test_models_without_a_counterpart_are_refused() -> None:
    for options, message in (
        ({"model_type": "word"}, "type word has no counterpart"),
        ({"treat_whitespace_as_suffix": True}, "spaces end words"),
        ({"user_defined_symbols": ["<sep>"]}, "user-defined symbols"),
    ):
        file = SentencePieceFile.parse(train(**options).serialized)
        with pytest.raises(ManyglotError, match=message):
            make_tokenizer(file, [piece.text for piece in file.pieces], source_tags=(), special_tags=())
