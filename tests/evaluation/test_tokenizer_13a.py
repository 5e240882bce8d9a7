from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a

from manyglot.evaluation.tokenizer_13a import tokenize_13a
from tests.evaluation.test_ngram_matches import SCRIPTS, phrases

MARKS = "".join(map(chr, range(32, 127))) + "\n\t\r\x0b\x1c\x85\u2028\u00a0é犬١"
PIECES = st.sampled_from(
    ["<skipped>", "<skip-\nped>", "&quot;", "&amp;lt;", "-\n", "1.5", "1,", ".5", "3-4", "a-b", "\n", " "]
)
TEXT = st.lists(st.one_of(PIECES, st.text(MARKS, max_size=4))).map("".join)


def theirs(text: str) -> list[str]:
    return str(Tokenizer13a()(text.rstrip())).split()


@given(st.lists(TEXT, max_size=5))
def test_tokens_match_sacrebleu(texts: list[str]) -> None:
    assert tokenize_13a(texts) == [theirs(text) for text in texts]


@pytest.mark.parametrize("code", SCRIPTS)
def test_tokens_of_real_text_match_sacrebleu(code: str) -> None:
    assert tokenize_13a(phrases()[code]) == [theirs(text) for text in phrases()[code]]
