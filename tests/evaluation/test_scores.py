from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest
from sacrebleu.metrics.bleu import BLEU
from sentencepiece import SentencePieceTrainer

from manyglot.corpus.phrasebook import Phrasebook, PhrasebookSettings
from manyglot.corpus.rows import Split
from manyglot.errors import ManyglotError
from manyglot.evaluation import scores
from manyglot.evaluation.scores import Measure, score
from tests.evaluation.test_ngrams import phrases, spoilt


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


@pytest.mark.parametrize("code", ["ja", "ko"])
def test_a_missing_tokenizer_names_its_extra(monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    monkeypatch.setattr(f"sacrebleu.tokenizers.tokenizer_{code}_mecab.MeCab", None)
    scores._bleu.cache_clear()
    with pytest.raises(ManyglotError, match=rf"pip install 'manyglot\[{code}\]'"):
        score(["x"], ["x"], code, Measure("mecab"))


@pytest.mark.parametrize(
    ("code", "name", "module"), [("ja", "ja-mecab", "MeCab"), ("ko", "ko-mecab", "mecab_ko"), ("zh", "zh", "sacrebleu")]
)
def test_words_of_each_language_are_those_of_sacrebleu(code: str, name: str, module: str) -> None:
    pytest.importorskip(module)
    scores._bleu.cache_clear()
    rows = Phrasebook(PhrasebookSettings(languages=("en", code), test_rows=100)).rows(Split.TEST)
    references = [row[code] for row in rows]
    outputs = spoilt(references, seed=1)
    found, metric = score(outputs, references, code, Measure("mecab")), BLEU(tokenize=name)
    assert found.bleu == metric.corpus_score(outputs, [references]).score
    assert found.bleu_signature == str(metric.get_signature())


def test_spbleu_is_that_of_sacrebleu_once_its_model_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("sacrebleu.utils", "sacrebleu.tokenizers.tokenizer_spm"):
        monkeypatch.setattr(f"{module}.SACREBLEU_DIR", str(tmp_path))
    scores._bleu.cache_clear()
    model = tmp_path / "models" / "flores200sacrebleuspm"
    with pytest.raises(ManyglotError, match=rf"spBLEU needs the model {model}.*--tokenize flores200"):
        Measure("flores200").check(["de"])
    model.parent.mkdir()
    for damaged in (b"", b"<html>"):
        model.write_bytes(damaged)
        with pytest.raises(ManyglotError, match="is not a SentencePiece model"):
            Measure("flores200").check(["de"])
    references = phrases()["de"]
    written = io.BytesIO()
    SentencePieceTrainer.train(sentence_iterator=iter(references), model_writer=written, vocab_size=150, minloglevel=2)
    model.write_bytes(written.getvalue())
    outputs = spoilt(references, seed=1)
    found, metric = score(outputs, references, "de", Measure("flores200")), BLEU(tokenize="flores200")
    assert found.bleu == metric.corpus_score(outputs, [references]).score
    assert found.bleu_signature == str(metric.get_signature())
    scores._bleu.cache_clear()


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
