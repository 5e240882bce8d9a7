from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manyglot.batches.source_lengths import SourceLengths
from manyglot.corpus.languages import Languages
from manyglot.decoding.text_splitter import SplitText, TextOptions, TextSplitter, wrap_text
from manyglot.errors import ManyglotError
from manyglot.vocabulary.vocabulary import Vocabulary
from tests.corpus.test_sentence_splitter import PARTS
from tests.decoding.stub import CODES, subword_model

TEXT = st.lists(st.sampled_from(PARTS)).map("".join)
VOCABULARY = Vocabulary(subword_model(), Languages(CODES))


def splitter(lengths: SourceLengths = SourceLengths(), **options: Any) -> TextSplitter:
    return TextSplitter(VOCABULARY, lengths, TextOptions(**options))


@given(TEXT, st.sampled_from(["auto", "always", "never"]), st.integers(2, 30), st.none() | st.sampled_from(CODES))
def test_splitting_and_joining_returns_the_text(text: str, mode: str, max_chars: int, language: str | None) -> None:
    split = splitter(split=mode, max_chars=max_chars).split(text, language)
    assert split.join(split.sentences) == text
    assert split.sentences == (text,) if mode == "never" else split.sentences
    if len(split.sentences) > 1:
        assert all(sentence and sentence == sentence.strip() for sentence in split.sentences)
        assert not "".join(split.spaces).strip()
    if mode == "always":
        assert all(len(sentence.strip()) <= max_chars for sentence in split.sentences)


@given(st.lists(st.sampled_from(["one", "Two!", "  ", "\n", " a. B.", "\t"])))
def test_no_sentence_is_lost_or_reordered(pieces: list[str]) -> None:
    split = SplitText.from_pieces(pieces)
    translations = [f"<{number}>" for number in range(len(split.sentences))]
    joined = split.join(translations)
    assert [joined.index(translation) for translation in translations] == sorted(map(joined.index, translations))
    for sentence, translation in zip(split.sentences, translations, strict=True):
        joined = joined.replace(translation, sentence)
    assert joined == "".join(pieces)


def test_auto_splits_text_that_is_longer_than_the_training_text() -> None:
    lengths = SourceLengths(subwords_p99=20, sentences_p99=2, max_subwords=30)
    auto = splitter(lengths)
    assert len(auto.split("One. Two. Three.").sentences) == 3  # more sentences than usual
    assert len(auto.split("One two. Three four").sentences) == 1
    assert len(auto.split("One two three four. Five six seven").sentences) == 2  # more subwords than usual
    assert len(auto.split("one two three four five six seven").sentences) == 1
    assert len(splitter(lengths, split="always").split("One. Two").sentences) == 2
    assert len(splitter(lengths, split="never").split("One. Two. Three. " * 10).sentences) == 1
    assert len(splitter().split("One. Two").sentences) == 2  # of a model that does not know its training text


def test_sentences_are_joined_with_the_space_of_the_language() -> None:
    spaced, dense = SplitText.from_pieces(["One. ", "Two.\n\n", "Three."]), SplitText.from_pieces(["一。", "二。"])
    assert spaced.join(["Eins.", "Zwei.", "Drei."], "de") == "Eins. Zwei.\n\nDrei."
    assert spaced.join(["一。", "二。", "三。"], "ja") == "一。二。\n\n三。"
    assert dense.join(["Eins.", "Zwei."], "de") == "Eins. Zwei."
    assert dense.join(["一。", "二。"], "zh-tw") == "一。二。"


@given(TEXT, st.integers(2, 20))
def test_wrapping_respects_the_limit_and_loses_nothing(text: str, max_chars: int) -> None:
    pieces = list(wrap_text(text, max_chars))
    assert "".join(pieces) == text
    assert all(len(piece) <= max_chars for piece in pieces)


def test_text_is_cut_at_spaces_and_not_before_combining_marks() -> None:
    assert list(wrap_text("one two three four", 9)) == ["one two", " three", " four"]
    assert list(wrap_text("aaaae\u0301aaaa", 5)) == ["aaaa", "e\u0301aaa", "a"]


def test_wrong_options_are_rejected() -> None:
    with pytest.raises(ManyglotError, match=r"split: 'alway' is not known\. Did you mean 'always'"):
        TextOptions(split="alway")  # type: ignore[arg-type]
    with pytest.raises(ManyglotError, match="max_chars is 1; it must be at least 2"):
        TextOptions(max_chars=1)
