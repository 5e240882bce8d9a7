from __future__ import annotations

import pytest

from manyglot.errors import ManyglotError
from manyglot.evaluation.scores import score


def test_a_perfect_translation_and_a_wrong_one() -> None:
    references = ["the cat sleeps on the mat today", "a dog runs through the park"]
    perfect = score(references, references, "en")
    assert (perfect.bleu, perfect.chrf) == (pytest.approx(100), pytest.approx(100))
    assert score(["x", "y"], references, "en").bleu < 1


def test_signatures_say_how_words_were_split() -> None:
    assert "tok:13a" in score(["a"], ["a"], "de").bleu_signature
    assert "tok:zh" in score(["你好"], ["你好"], "zh").bleu_signature
    assert "tok:zh" in score(["你好"], ["你好"], "zh-tw").bleu_signature
    assert "nw:2" in score(["a"], ["a"], "de").chrf_signature, "chrF++ counts words too"


def test_chinese_is_split_into_characters() -> None:
    assert score(["我 喜 欢 你 们"], ["我喜欢你们"], "zh").bleu == pytest.approx(100)


def test_unequal_numbers_are_refused() -> None:
    with pytest.raises(ManyglotError, match="2 translations cannot be scored against 1 references"):
        score(["a", "b"], ["a"], "de")


def test_a_missing_tokenizer_names_its_extra() -> None:
    try:
        import MeCab  # noqa: F401
    except ImportError:
        with pytest.raises(ManyglotError, match=r"pip install 'sacrebleu\[ja\]'"):
            score(["犬"], ["犬"], "ja")
