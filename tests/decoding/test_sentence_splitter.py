from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manyglot.decoding.sentence_splitter import join_sentences, split_sentences, wrap_text

TEXT = st.text(alphabet=st.sampled_from('aB1 .!?…。？」")\u2028\u0301न।J3\n'), max_size=60)


@pytest.mark.parametrize(
    "sentences",
    [
        ["One.", "Two!", "Three?", "Four…", "five"],
        ["He said: “Stop!”", "She (of course) did.)", "End."],
        ["J. S. Bach wrote it.", "On the 3. May, say.", "It was 1985.", "Version 2.5 is here."],
        ["See e.g. this one.", "Now the next."],
        ["ما اسمك؟", "أنا بخير."],
        ["यह एक वाक्य है।", "दूसरा वाक्य॥", "तीसरा"],
        ["ይህ አረፍተ ነገር ነው።", "ሌላ።"],
        ["ဒါက ဝါကျ။", "နောက်တစ်ခု။"],
        ["Really?!", "Yes..."],
        [],
    ],
)
def test_sentences_are_split_in_many_scripts(sentences: list[str]) -> None:
    assert list(split_sentences("  ".join(sentences))) == sentences


def test_full_width_marks_need_no_space() -> None:
    assert list(split_sentences("你好。「再见！」他说？是。")) == ["你好。", "「再见！」", "他说？", "是。"]


@given(TEXT)
def test_splitting_loses_only_spaces(text: str) -> None:
    sentences = list(split_sentences(text))
    assert "".join("".join(sentences).split()) == "".join(text.split())
    assert all(sentence and sentence == sentence.strip() for sentence in sentences)


@given(TEXT, st.integers(2, 20))
def test_wrapping_respects_the_limit_and_loses_only_spaces(text: str, max_chars: int) -> None:
    pieces = list(wrap_text(text, max_chars))
    assert "".join("".join(pieces).split()) == "".join(text.split())
    assert all(0 < len(piece) <= max_chars for piece in pieces)


def test_sentences_are_joined_with_the_spaces_of_the_language() -> None:
    assert join_sentences(["Eins.", "", "Zwei."], "de") == "Eins. Zwei."
    assert join_sentences(["一。", "二。"], "zh") == join_sentences(["一。", "二。"], "zh-tw") == "一。二。"


@pytest.mark.parametrize("part", [".", ".)", "a.", ". ", "\u0301", '."', "。"])
def test_splitting_takes_linear_time(part: str) -> None:
    start = time.monotonic()
    for sentence in split_sentences(part * 2**17):
        assert all(wrap_text(sentence, 100))
    assert time.monotonic() - start < 10
