from __future__ import annotations

import io
from pathlib import Path

import pytest
import sentencepiece
from hypothesis import given
from hypothesis import strategies as st

from manyglot.corpus.languages import Languages
from manyglot.errors import FolderError, SettingsError
from manyglot.vocabulary.subwords import EOS, PAD, UNK, Subwords, VocabularySettings, train_subwords
from manyglot.vocabulary.vocabulary import Tags, Vocabulary

TEXT = ["die Katze schläft", "the cat sleeps 2024 times", "кошка спит", "猫は眠る", "a b c d e f g"] * 4


@pytest.fixture(scope="module")
def subwords() -> Subwords:
    return train_subwords(TEXT, VocabularySettings(size=120, byte_fallback=False))


@given(
    st.lists(st.sampled_from(sorted({c for line in TEXT for c in line if c != " "})), min_size=1, max_size=12),
    st.data(),
)
def test_known_characters_come_back_as_they_were(
    subwords: Subwords, characters: list[str], data: st.DataObject
) -> None:
    cut = data.draw(st.integers(1, len(characters)))
    text = " ".join(part for part in ("".join(characters[:cut]), "".join(characters[cut:])) if part)
    assert subwords.decode(subwords.encode([text])) == [text]


def test_equal_sentences_are_split_once(subwords: Subwords, monkeypatch: pytest.MonkeyPatch) -> None:
    split, lines = [], [TEXT[1], "", TEXT[0], TEXT[1], ""]
    expected, encode = subwords.encode(lines), subwords.encode
    monkeypatch.setattr(subwords, "encode", lambda texts: split.extend(texts) or encode(texts))
    assert Vocabulary(subwords, Languages(["en", "de"])).encode(lines) == expected
    assert split == [TEXT[1], "", TEXT[0]]


def test_text_is_not_normalised() -> None:
    forms = "ﬁ fi ｆ f ² 2 é e\u0301"
    model = train_subwords([forms] * 5 + TEXT, VocabularySettings(size=140))
    assert model.decode(model.encode([forms])) == [forms]


def test_training_is_reproducible() -> None:
    settings = VocabularySettings(size=100)
    assert train_subwords(TEXT, settings).serialized == train_subwords(TEXT, settings).serialized


def test_digits_can_be_split() -> None:
    split = train_subwords(TEXT, VocabularySettings(size=110, split_digits=True))
    joined = train_subwords(TEXT, VocabularySettings(size=130))
    assert len(split.encode(["2024"])[0]) >= 4
    assert len(joined.encode(["2024"])[0]) < 4


def test_tags_are_symbols_that_no_text_can_contain(subwords: Subwords) -> None:
    vocabulary = Vocabulary(subwords, Languages(["en", "de", "ru"]))
    assert len(vocabulary) == len(subwords) + 3
    assert [vocabulary.tag_id(i) for i in range(3)] == [len(subwords), len(subwords) + 1, len(subwords) + 2]
    written = vocabulary.encode(["<de> __de__ </s> <pad> >>de<<"])[0]
    assert max(written) < len(subwords)
    assert EOS not in written
    assert PAD not in written


def test_decoding_leaves_special_symbols_out(subwords: Subwords) -> None:
    vocabulary = Vocabulary(subwords, Languages(["en", "de"]))
    ids = vocabulary.encode(["the cat"])[0]
    assert vocabulary.decode([[vocabulary.tag_id(1), *ids, EOS, PAD, PAD]]) == ["the cat"]


def test_tags_of_several_methods_add_up() -> None:
    both = Tags(source=(7,)) + Tags(target=(8,), predicted=False)
    assert both == Tags(source=(7,), target=(8,), predicted=False)


@pytest.mark.parametrize(("size", "message"), [(5000, "this text gives at most"), (64, "characters")])
def test_an_impossible_size_is_explained(size: int, message: str) -> None:
    text = TEXT if size > 64 else ["".join(chr(i) for i in range(0x4E00, 0x4F00))]
    with pytest.raises(SettingsError, match=message):
        train_subwords(text, VocabularySettings(size=size))


def test_damaged_and_foreign_models_are_refused(tmp_path: Path) -> None:
    (tmp_path / "broken.model").write_bytes(b"not a model")
    with pytest.raises(FolderError, match="is not a SentencePiece model"):
        Subwords.load(tmp_path / "broken.model")
    with pytest.raises(FolderError, match=r"Cannot read .*absent\.model"):
        Subwords.load(tmp_path / "absent.model")


@pytest.mark.parametrize(
    "numbers",
    [{"unk_id": 0, "bos_id": 1, "eos_id": 2, "pad_id": -1}, {"unk_id": 3, "bos_id": -1, "eos_id": 0, "pad_id": 5}],
)
def test_a_model_made_elsewhere_can_be_brought(numbers: dict[str, int]) -> None:
    """Other numbers of the special symbols, or no <pad>: ours are always 0, 1, 2, and the text comes back."""
    text = [" ".join(chr(97 + (i * j) % 26) * 3 for j in range(9)) for i in range(30)]
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.Train(
        sentence_iterator=iter(text), model_writer=model, vocab_size=50, minloglevel=2, **numbers
    )
    subwords = Subwords(model.getvalue())
    theirs = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    ids = subwords.encode(text)
    assert subwords.decode(ids) == text
    assert all(EOS < i < len(subwords) for each in ids for i in each)
    assert [len(each) for each in ids] == [len(each) for each in theirs.encode(text)]
    assert subwords.encode(["日本"])[0][-1] == UNK
    assert Subwords(subwords.serialized).encode(text) == ids
    pieces = subwords.pieces()
    assert pieces[: UNK + 1] == ["<pad>", "</s>", "<unk>"]
    assert len(set(pieces)) == len(subwords)
    assert [[pieces[i] for i in each] for each in ids] == theirs.encode(text, out_type=str)
