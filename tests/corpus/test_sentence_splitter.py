from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manyglot.corpus.sentence_splitter import SentenceSplitter, count_clear_sentences

SPLITTER = SentenceSplitter(["de", "el", "en", "ja", "ru", "zh"])
# The white space beyond ASCII before an initial crashes sentencex 1.0.32, and it rejects a lone surrogate.
PARTS = [
    "a",
    "B",
    "3",
    " ",
    ".",
    "!",
    "?",
    "…",
    "。",
    "？",
    '"',
    "“",
    "”",
    ")",
    "\u2028",
    "\u3000",
    "\x85",
    "\xa0",
    "\u0301",
]
PARTS += ["न", "।", "Ω", ";", "\n", "\r\n", "\t", "\ud800", "😀", "Dr. ", "z.B. ", "\u3000B.", "\x1d"]
LANGUAGES = st.none() | st.sampled_from(["de", "deu", "el", "en", "ja", "pt-br", "zh-Hant", "qaa"])


@pytest.mark.parametrize(
    ("language", "sentences"),
    [
        ("en", ["Dr. Smith met Prof. Dr. Maier. ", 'He said: "Hi." ', "Then he left."]),
        (None, ["Dr. Smith met Prof. Dr. Maier. ", "Version 2.5 is here.  ", "Is it? ", "Yes!"]),
        (None, ["January 15, 1986. ", "10 milliliters. ", "52 minutes. ", "3 weeks"]),
        ("de", ["Am 3. März kam z.B. Dr. Maier. ", "Er ging."]),
        ("deu_Latn", ["Am 3. März kam z.B. Dr. Maier. ", "Er ging."]),
        (None, ["Am 3. März kam er. ", "Den 17. Mai ging er."]),
        ("fi", ["Hän tuli 3. Maaliskuuta. ", "Hän lähti."]),
        ("en", ["I have 3. ", "You have 4."]),
        (None, ["Πού πας; ", "Πάω σπίτι."]),
        ("ja", ["今日は晴れです。", "「本当？」", "はい。"]),
        (None, ["यह एक वाक्य है। ", "दूसरा।"]),
        ("qaa", ["Kihumi faku. ", "Zezu duka."]),
        (None, ["See you! ", "🎉 Bye. “ ☃"]),
        (None, ["!!! ☃ See you. ", "Bye"]),
        (None, ["☃! 🎉"]),
        (None, []),
    ],
)
def test_sentences_are_split_by_the_rules_of_their_language(language: str | None, sentences: list[str]) -> None:
    assert SPLITTER.split("".join(sentences), language) == sentences


@given(st.lists(st.sampled_from(PARTS)).map("".join) | st.text(max_size=40), LANGUAGES)
def test_the_sentences_are_the_whole_text_in_order(text: str, language: str | None) -> None:
    sentences = SPLITTER.split(text, language)
    assert "".join(sentences) == text
    assert all(sentences)


def test_a_sentence_in_lowercase_may_follow_an_abbreviation() -> None:
    assert count_clear_sentences(SPLITTER.split("3 амер. галлона", "ru")) == 1
    assert count_clear_sentences(SPLITTER.split("One. Two. 3 days.")) == 3
    assert count_clear_sentences(["one. ", "\n"]) == 1
    assert count_clear_sentences([]) == 0


@pytest.mark.parametrize("part", [".", ".)", "a.", ". ", "A. b", "\u0301", '."', "。", "1. ", "("])
def test_splitting_takes_linear_time(part: str) -> None:
    start = time.monotonic()
    SPLITTER.split(part * 2**17)
    assert time.monotonic() - start < 10
