from __future__ import annotations

import sys
from pathlib import Path

import pytest

from manyglot.errors import ManyglotError
from manyglot.evaluation import scores
from manyglot.evaluation.scores import Measure, score


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


def test_the_tokenizer_is_a_setting() -> None:
    assert "tok:13a" in score(["你好"], ["你好"], "zh", Measure("13a")).bleu_signature
    assert {code: Measure("mecab").tokenizer_of(code) for code in ("ko", "ja", "zh-tw", "de")} == {
        "ko": "ko-mecab", "ja": "ja-mecab", "zh-tw": "zh", "de": "13a",
    }  # fmt: skip
    assert Measure("flores200").tokenizer_of("zh") == "flores200"


@pytest.mark.parametrize(("module", "code", "extra"), [("MeCab", "ja", "ja"), ("mecab_ko", "ko", "ko")])
def test_a_missing_tokenizer_names_its_extra(
    monkeypatch: pytest.MonkeyPatch, module: str, code: str, extra: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.delitem(sys.modules, f"sacrebleu.tokenizers.tokenizer_{code}_mecab", raising=False)
    scores._bleu.cache_clear()
    with pytest.raises(ManyglotError, match=rf"pip install 'manyglot\[{extra}\]'"):
        score(["x"], ["x"], code, Measure("mecab"))


def test_spbleu_is_not_downloaded_in_the_middle_of_the_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sacrebleu.utils.SACREBLEU_DIR", str(tmp_path))
    with pytest.raises(ManyglotError, match="spBLEU needs the tokenizer flores200, which sacreBLEU downloads"):
        Measure("flores200").check(["de"])


def test_text_that_is_tokenised_is_detokenised_first() -> None:
    pytest.importorskip("sacremoses")
    measure = Measure(detokenize=True)
    assert measure.plain(["Hello , world ! ( yes )"], "en") == ["Hello, world! (yes)"]
    found = score(["Well , it 's a very good day !"], ["Well, it's a very good day!"], "en", measure)
    assert found.bleu == pytest.approx(100)
    assert found.bleu_signature.endswith("|detok:sacremoses")


def test_without_sacremoses_nothing_is_detokenised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sacremoses", None)
    scores._detokenizer.cache_clear()
    with pytest.raises(ManyglotError, match=r"pip install 'manyglot\[moses\]'"):
        Measure(detokenize=True).check(["de"])
