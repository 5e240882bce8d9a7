"""A trimmed subword model splits text as before, unless a removed subword occurs in it."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from itertools import chain

import pytest
import sentencepiece

from manyglot.errors import FolderError
from manyglot.vocabulary.extended_model import ExtendedModel
from manyglot.vocabulary.piece_table_model import PieceTableModel
from manyglot.vocabulary.sentencepiece_file import SentencePieceFile
from manyglot.vocabulary.sentencepiece_model import SentencePieceModel, train_subword_model
from manyglot.vocabulary.subword_file import PieceList
from manyglot.vocabulary.subword_model import UNK, SubwordModel, VocabularySettings
from manyglot.vocabulary.tokenizer_files import TokenizerJsonFile, merge_path
from manyglot.vocabulary.tokenizers_model import TokenizersModel
from manyglot.vocabulary.trimming import TrimmedSubwords, trim_subword_model
from tests.vocabulary.tiny_models import pieces_of, tiny_tokenizer_json

LINES = {
    "de": ["die Katze schläft im Haus", "der Hund läuft schnell nach Hause", "das Haus ist 2024 größer als 1999"],
    "en": ["the cat sleeps in the house", "the dog runs home quickly", "this house is larger than that one"],
    "ru": ["кошка спит в доме", "собака быстро бежит домой", "этот дом больше того"],
    "zh": ["猫在屋里睡觉。", "狗跑回家了。", "这个房子比那个大。"],
}
TEXT = tuple(chain(*LINES.values())) * 3
WORDS = " ".join(TEXT[: len(TEXT) // 3]).split()
KEPT, SYMBOLS = ("de", "en"), ["<pad>", "</s>", "<unk>", "<s>"]


@cache
def sentencepiece_file(model_type: str, size: int = 220, **options: object) -> bytes:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.Train(
        sentence_iterator=iter(TEXT), model_writer=model, model_type=model_type, vocab_size=size,
        hard_vocab_limit=False, character_coverage=1.0, minloglevel=2, **options,
    )  # fmt: skip
    return model.getvalue()


def piece_table() -> PieceTableModel:
    """A table with two models, symbols, and a piece that no text has."""
    files = sentencepiece_file("unigram"), sentencepiece_file("bpe")
    pieces = [*SYMBOLS, *sorted({piece for file in files for piece in pieces_of(file)}), "madeupword"]
    return PieceTableModel(PieceList(pieces, frozenset({3, len(pieces) - 1})), *files)


def tokenizer(model_type: str) -> TokenizersModel:
    """A tokenizer.json with the pieces and scores of a SentencePiece model."""
    values = json.loads(tiny_tokenizer_json())
    scores = {piece.text: piece.score for piece in SentencePieceFile.parse(sentencepiece_file(model_type)).pieces[3:]}
    pieces = [*SYMBOLS, *scores]
    if model_type == "bpe":
        merges = [
            [piece[:i], piece[i:]]
            for piece in sorted(scores, key=lambda piece: -scores[piece])
            for i in range(1, len(piece))
            if piece[:i] in scores and piece[i:] in scores
        ]
        values["model"] |= {"vocab": {piece: i for i, piece in enumerate(pieces)}, "merges": merges}
    else:
        vocab = [[piece, scores.get(piece, 0.0)] for piece in pieces]
        values["model"] = {"type": "Unigram", "unk_id": 2, "vocab": vocab}
    return TokenizersModel(PieceList(pieces, frozenset({3})), json.dumps(values).encode("utf-8"))


MODELS: dict[str, Callable[[], SubwordModel]] = {
    "BPE": lambda: train_subword_model(TEXT, VocabularySettings(size=200)),
    "BPE with bytes": lambda: train_subword_model(TEXT, VocabularySettings(size=450, byte_fallback=True)),
    "BPE with symbols": lambda: SentencePieceModel(sentencepiece_file("bpe", user_defined_symbols="Haus,<x>")),
    "unigram": lambda: SentencePieceModel(sentencepiece_file("unigram")),
    "unigram with symbols": lambda: SentencePieceModel(sentencepiece_file("unigram", user_defined_symbols="Haus")),
    "characters": lambda: SentencePieceModel(sentencepiece_file("char")),
    "piece table": piece_table,
    "tokenizer, BPE": lambda: tokenizer("bpe"),
    "tokenizer, unigram": lambda: tokenizer("unigram"),
}


@pytest.fixture(params=MODELS)
def model(request: pytest.FixtureRequest) -> SubwordModel:
    if "tokenizer" in request.param:
        pytest.importorskip("tokenizers")
    return MODELS[request.param]()


def split_both_ways(model: SubwordModel, lines: Sequence[str]) -> list[list[int]]:
    return [*model.encode(lines), *model.encode_targets(lines)]


def trim_to(model: SubwordModel, lines: Sequence[str], codes: Iterable[str] = KEPT) -> TrimmedSubwords:
    return trim_subword_model(model, set(chain(*split_both_ways(model, lines))), tuple(codes))


def random_lines(number: int = 300) -> list[str]:
    rng = random.Random(0)
    words = [word[: rng.randint(1, len(word))] + rng.choice(WORDS)[rng.randint(0, 3) :] for word in WORDS * 3]
    return [" ".join(rng.choices([*WORDS, *words, "Ω☃", "☃"], k=rng.randint(1, 6))) for _ in range(number)]


def test_text_without_removed_subwords_is_split_as_before(model: SubwordModel) -> None:
    num_unchanged = 0
    for lines in (LINES["de"][:1], LINES["en"], [*LINES["de"], *LINES["en"]]):
        trimmed = trim_to(model, lines)
        assert [trimmed.model.pieces()[UNK + 1 :]] == [[model.pieces()[i] for i in trimmed.old_ids[UNK + 1 :]]]
        new_ids = {old: new for new, old in enumerate(trimmed.old_ids)}
        texts = [*lines, *random_lines()]
        for old, new in zip(split_both_ways(model, texts), split_both_ways(trimmed.model, texts), strict=True):
            if new_ids.keys() >= set(old):
                assert [new_ids[i] for i in old] == new
                num_unchanged += 1
    assert num_unchanged > 50


def test_known_characters_stay_known(model: SubwordModel) -> None:
    trimmed = trim_to(model, LINES["de"][:2]).model
    assert not trimmed.unknown_characters("".join(LINES["de"] + LINES["en"]))
    assert trimmed.decode(trimmed.encode_targets(LINES["en"])) == LINES["en"]


def test_subwords_of_other_text_are_removed(model: SubwordModel) -> None:
    trimmed = trim_to(model, [*LINES["de"], *LINES["en"]])
    others = {character for code in ("ru", "zh") for line in LINES[code] for character in line if character.isalpha()}
    remaining = [piece for piece in trimmed.model.pieces() if others & set(piece)]
    assert len(remaining) <= 2 or len(trimmed.model) == len(model), "a unigram model keeps two pieces for their scores"
    assert len(trimmed.model.serialized) <= len(model.serialized)
    assert "madeupword" not in trimmed.model.pieces()


def test_characters_of_the_scripts_of_the_languages_stay() -> None:
    model = MODELS["BPE"]()
    for codes, expected in ((("de", "en"), "9 ß k ▁"), (("de", "zh"), "9 ß k ▁ 猫 。"), (("en", "uk"), "9 ß k ▁ б")):
        pieces = trim_to(model, ["the cat"], codes).model.pieces()
        assert set(expected.split()) <= set(pieces)
        assert ("猫" in pieces, "б" in pieces) == ("猫" in expected, "б" in expected)
        assert not any(len(piece) > 2 and "猫" in piece for piece in pieces)


def test_without_text_all_subwords_stay() -> None:
    model = MODELS["BPE"]()
    trimmed = trim_subword_model(model, None, KEPT)
    assert trimmed.model is model
    assert list(trimmed.old_ids) == list(range(len(model)))


@pytest.mark.parametrize("kept", [("de", "en"), ("de", "ru"), ("de", "ru", "zh")])
def test_the_subwords_of_a_language_stay_with_the_language(kept: tuple[str, ...]) -> None:
    def subwords(code: str) -> SubwordModel:
        return train_subword_model(LINES[code] * 3, VocabularySettings(size=64, character_coverage=0.98))

    model = ExtendedModel(MODELS["BPE"](), {code: subwords(code) for code in ("zh", "ru")})
    for trimmed in (trim_to(model, LINES["de"], kept), trim_subword_model(model, None, kept)):
        assert list(trimmed.model.further_languages) == [code for code in ("zh", "ru") if code in kept]
        assert [model.pieces()[i] for i in trimmed.old_ids] == trimmed.model.pieces()
        for code in trimmed.model.further_languages:
            (old,), (new,) = (each.for_language(code).encode(LINES[code][:1]) for each in (model, trimmed.model))
            assert [trimmed.old_ids[i] for i in new] == old
            assert min(new) > len(trimmed.model.original) - 1


def test_a_merge_path_is_that_of_the_algorithm() -> None:
    ranks = {pair: i for i, pair in enumerate([("b", "c"), ("a", "b"), ("a", "bc"), ("ab", "c")])}
    assert list(merge_path("abc", lambda *pair: ranks.get(pair))) == ["bc", "abc"]
    assert list(merge_path("abab", lambda *pair: ranks.get(pair))) == ["ab", "ab"]
    assert list(merge_path("x", lambda *pair: ranks.get(pair))) == []


def test_the_score_of_unknown_characters_stays() -> None:
    """It is 10 below the lowest score, here -30: `a` + `b☃` is better than `ab` + unknown, by 0.5."""
    pytest.importorskip("tokenizers")
    values = json.loads(tiny_tokenizer_json())
    scores = {"▁": -1.0, "a": -15.0, "b☃": -15.5, "ab": -1.0, "lowest": -20.0, "b": -19.0}
    vocab = [*([symbol, 0.0] for symbol in SYMBOLS), *map(list, scores.items())]
    values["model"] = {"type": "Unigram", "unk_id": 2, "vocab": vocab}
    model = TokenizersModel(PieceList([*SYMBOLS, *scores], frozenset({3})), json.dumps(values).encode())
    trimmed = trim_to(model, ["ab☃", "ab"]).model
    assert UNK not in model.encode(["ab☃"])[0] + trimmed.encode(["ab☃"])[0]


def test_old_and_new_forms_of_merges_are_read() -> None:
    values = json.loads(tiny_tokenizer_json())
    expected = TokenizerJsonFile(json.dumps(values).encode())
    values["model"]["merges"] = [" ".join(pair) for pair in values["model"]["merges"]]
    splitter = TokenizerJsonFile(json.dumps(values).encode())
    assert splitter.required_pieces({"▁cat"}) == expected.required_pieces({"▁cat"}) == {"▁c", "at", "▁cat"}
    assert splitter.without({"▁cat"}) == expected.without({"▁cat"})
    assert json.loads(splitter.without({"▁cat"}))["model"]["merges"] == [["▁", "c"], ["a", "t"]]


def test_a_tokenizer_with_unknown_rules_is_refused() -> None:
    pytest.importorskip("tokenizers")
    values = json.loads(tiny_tokenizer_json())
    values["model"] |= {"continuing_subword_prefix": "_", "merges": [["c", "_a"], ["ca", "_t"]]}
    pieces = [*SYMBOLS, "▁", "c", "_a", "_t", "ca", "cat"]
    values["model"]["vocab"] = {piece: i for i, piece in enumerate(pieces)}
    values["pre_tokenizer"] = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "never", "split": True}
    model = TokenizersModel(PieceList(pieces, frozenset({3})), json.dumps(values).encode())
    assert model.pieces()[model.encode(["cat"])[0][0]] == "cat"
    with pytest.raises(FolderError, match="rules that manyglot does not know"):
        trim_to(model, ["cat"])
