"""A language with subwords of its own changes nothing for the other languages."""

from __future__ import annotations

from pathlib import Path

import pytest

from manyglot.corpus.languages import Languages
from manyglot.errors import FolderError
from manyglot.vocabulary.extended_model import LANGUAGE_PREFIX, ORIGINAL_PART, ExtendedModel
from manyglot.vocabulary.loading import load_subword_model
from manyglot.vocabulary.sentencepiece_model import SentencePieceModel, train_subword_model
from manyglot.vocabulary.subword_file import pack
from manyglot.vocabulary.subword_model import EOS, UNK, VocabularySettings
from manyglot.vocabulary.vocabulary import Vocabulary
from tests.vocabulary.tiny_models import TEXT, tiny_sentencepiece

GEORGIAN = ["ერთი კატა ზის", "ორი კატა", "the კატა", "სამი ძაღლი გარბის ტყეში", "ოთხი ჩიტი მღერის"] * 4
POLISH = ["kot śpi", "dwa koty", "the kot", "trzy psy biegną przez las", "cztery ptaki śpiewają głośno"] * 4


def trained_on(text: list[str], size: int) -> SentencePieceModel:
    return train_subword_model(text, VocabularySettings(size=size))


ORIGINAL = SentencePieceModel(tiny_sentencepiece())
KA, PL = trained_on(GEORGIAN, 64), trained_on(POLISH, 70)
EXTENDED = ExtendedModel(ORIGINAL, {"ka": KA, "pl": PL})


def test_old_languages_are_split_as_before() -> None:
    for text in (TEXT, GEORGIAN):
        assert EXTENDED.encode(text) == EXTENDED.for_language("de").encode(text) == ORIGINAL.encode(text)
        assert EXTENDED.for_language(None).encode_targets(text) == ORIGINAL.encode(text)


def test_a_language_has_subwords_of_its_own_even_if_their_text_is_known() -> None:
    ids = [
        i
        for code, text in (("ka", GEORGIAN), ("pl", POLISH))
        for s in EXTENDED.for_language(code).encode(text)
        for i in s
    ]
    assert min(ids) >= len(ORIGINAL)
    assert UNK not in ids
    assert len(EXTENDED) == len(ORIGINAL) + len(KA) + len(PL) - 2 * (UNK + 1)
    pieces = EXTENDED.pieces()
    assert [pieces[i] for i in EXTENDED.for_language("pl").encode(["the kot"])[0]] == [
        PL.pieces()[i] for i in PL.encode(["the kot"])[0]
    ]
    assert not set(EXTENDED.ids_of_language("ka")[2:]) & set(EXTENDED.ids_of_language("pl")[2:])
    assert list(EXTENDED.ids_of_language("pl"))[:2] == [EOS, UNK]
    assert EXTENDED.ids_of_language("de") == range(len(ORIGINAL))


def test_all_sentences_are_decoded() -> None:
    vocabulary = Vocabulary(EXTENDED, Languages(["de", "en", "ka", "pl"]))
    texts, languages = ["the cat sleeps", "ორი კატა", "dwa koty", ""], ["en", "ka", "pl", "pl"]
    ids = vocabulary.encode(texts, languages)
    assert ids == vocabulary.encode_targets(texts, languages)
    assert vocabulary.decode(ids) == texts
    assert vocabulary.decode([[*ids[0], *ids[1], EOS, *ids[2]]]) == ["the cat sleeps ორი კატა dwa koty"]


def test_a_model_can_be_extended_again_and_saved(tmp_path: Path) -> None:
    again = ExtendedModel(ExtendedModel(ORIGINAL, {"ka": KA}), {"pl": PL})
    assert again.serialized == EXTENDED.serialized
    again.save(tmp_path / "subwords.model")
    loaded = load_subword_model(tmp_path / "subwords.model")
    assert loaded.pieces() == EXTENDED.pieces()
    assert loaded.for_language("ka").encode(GEORGIAN) == EXTENDED.for_language("ka").encode(GEORGIAN)
    assert loaded.original.pieces() == ORIGINAL.pieces()


@pytest.mark.parametrize(
    "content",
    [
        pack("extended", {LANGUAGE_PREFIX + "ka": KA.serialized}),
        pack("extended", {ORIGINAL_PART: EXTENDED.serialized, LANGUAGE_PREFIX + "ka": KA.serialized}),
        pack("extended", {ORIGINAL_PART: ORIGINAL.serialized, LANGUAGE_PREFIX + "ka": b"\xff" * 50}),
    ],
    ids=["no original", "extended twice", "damaged part"],
)
def test_a_damaged_file_is_one_error(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "subwords.model").write_bytes(content)
    with pytest.raises(FolderError, match="is not a subword model") as info:
        load_subword_model(tmp_path / "subwords.model")
    assert "\n" not in str(info.value)
