from __future__ import annotations

import io
from pathlib import Path

import pytest
import sentencepiece
from hypothesis import given
from hypothesis import strategies as st

from manyglot.corpus.languages import Languages
from manyglot.errors import FolderError, SettingsError
from manyglot.vocabulary.loading import load_subword_model
from manyglot.vocabulary.sentencepiece_model import SentencePieceModel, train_subword_model
from manyglot.vocabulary.subword_model import EOS, PAD, UNK, SubwordModel, VocabularySettings
from manyglot.vocabulary.vocabulary import LanguageTags, Vocabulary

TEXT = ["die Katze schläft", "the cat sleeps 2024 times", "кошка спит", "猫は眠る", "a b c d e f g"] * 4


@pytest.fixture(scope="module")
def subword_model() -> SubwordModel:
    return train_subword_model(TEXT, VocabularySettings(size=120, byte_fallback=False))


@given(
    st.lists(st.sampled_from(sorted({c for line in TEXT for c in line if c != " "})), min_size=1, max_size=12),
    st.data(),
)
def test_known_characters_round_trip(subword_model: SubwordModel, characters: list[str], data: st.DataObject) -> None:
    cut = data.draw(st.integers(1, len(characters)))
    text = " ".join(part for part in ("".join(characters[:cut]), "".join(characters[cut:])) if part)
    assert subword_model.decode(subword_model.encode([text])) == [text]


def test_equal_sentences_are_split_once(subword_model: SubwordModel, monkeypatch: pytest.MonkeyPatch) -> None:
    split, lines = [], [TEXT[1], "", TEXT[0], TEXT[1], ""]
    expected, encode = subword_model.encode(lines), subword_model.encode
    monkeypatch.setattr(subword_model, "encode", lambda texts: split.extend(texts) or encode(texts))
    assert Vocabulary(subword_model, Languages(["en", "de"])).encode(lines) == expected
    assert split == [TEXT[1], "", TEXT[0]]


def test_text_is_not_normalized() -> None:
    forms = "ﬁ fi ｆ f ² 2 é e\u0301"
    model = train_subword_model([forms] * 5 + TEXT, VocabularySettings(size=140))
    assert model.decode(model.encode([forms])) == [forms]


def test_training_is_reproducible() -> None:
    settings = VocabularySettings(size=100)
    assert train_subword_model(TEXT, settings).serialized == train_subword_model(TEXT, settings).serialized


def test_digits_can_be_split() -> None:
    split = train_subword_model(TEXT, VocabularySettings(size=110, split_digits=True))
    joined = train_subword_model(TEXT, VocabularySettings(size=130))
    assert len(split.encode(["2024"])[0]) >= 4
    assert len(joined.encode(["2024"])[0]) < 4


def test_no_text_encodes_to_tags_or_special_symbols(subword_model: SubwordModel) -> None:
    vocabulary = Vocabulary(subword_model, Languages(["en", "de", "ru"]))
    assert len(vocabulary) == len(subword_model) + 3
    assert [vocabulary.tag_id(i) for i in range(3)] == list(range(len(subword_model), len(vocabulary)))
    ids = vocabulary.encode(["<de> __de__ </s> <pad> >>de<<"])[0]
    assert max(ids) < len(subword_model)
    assert EOS not in ids
    assert PAD not in ids


def test_decoding_ignores_special_symbols(subword_model: SubwordModel) -> None:
    vocabulary = Vocabulary(subword_model, Languages(["en", "de"]))
    ids = vocabulary.encode(["the cat"])[0]
    assert vocabulary.decode([[vocabulary.tag_id(1), *ids, EOS, PAD, PAD]]) == ["the cat"]


def test_tags_of_several_methods_are_concatenated() -> None:
    both = LanguageTags(source=(7,)) + LanguageTags(target=(8,), target_predicted=False)
    assert both == LanguageTags(source=(7,), target=(8,), target_predicted=False)


@pytest.mark.parametrize(
    ("size", "message"), [(5000, r"this text yields at most \d+ subwords\. Lower it\."), (64, "characters")]
)
def test_an_impossible_size_is_explained(size: int, message: str) -> None:
    text = TEXT if size > 64 else ["".join(chr(i) for i in range(0x4E00, 0x4F00))]
    with pytest.raises(SettingsError, match=message):
        train_subword_model(text, VocabularySettings(size=size))


def test_damaged_and_missing_models_are_refused(tmp_path: Path) -> None:
    (tmp_path / "broken.model").write_bytes(b"not a model")
    with pytest.raises(FolderError, match="is not a SentencePiece model"):
        load_subword_model(tmp_path / "broken.model")
    with pytest.raises(FolderError, match=r"Cannot read .*absent\.model"):
        load_subword_model(tmp_path / "absent.model")


@pytest.mark.parametrize(
    "special_ids",
    [{"unk_id": 0, "bos_id": 1, "eos_id": 2, "pad_id": -1}, {"unk_id": 3, "bos_id": -1, "eos_id": 0, "pad_id": 5}],
)
def test_a_model_trained_elsewhere_can_be_used(special_ids: dict[str, int]) -> None:
    """Its special symbols may have other ids, or <pad> may be missing; ours are 0, 1, 2, and text round-trips."""
    text = [" ".join(chr(97 + (i * j) % 26) * 3 for j in range(9)) for i in range(30)]
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.Train(
        sentence_iterator=iter(text), model_writer=model, vocab_size=50, minloglevel=2, **special_ids
    )
    subword_model = SentencePieceModel(model.getvalue())
    processor = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    ids = subword_model.encode(text)
    assert subword_model.decode(ids) == text
    assert all(EOS < i < len(subword_model) for each in ids for i in each)
    assert [len(each) for each in ids] == [len(each) for each in processor.encode(text)]
    assert subword_model.encode(["日本"])[0][-1] == UNK
    assert SentencePieceModel(subword_model.serialized).encode(text) == ids
    pieces = subword_model.pieces()
    assert pieces[: UNK + 1] == ["<pad>", "</s>", "<unk>"]
    assert len(set(pieces)) == len(subword_model)
    assert [[pieces[i] for i in each] for each in ids] == processor.encode(text, out_type=str)
