from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest
from sacrebleu.metrics.bleu import BLEU
from sentencepiece import SentencePieceTrainer

from manyglot.corpus.base import Split
from manyglot.corpus.phrasebook import PhrasebookCorpus, PhrasebookSettings
from manyglot.errors import ManyglotError
from manyglot.evaluation import metrics
from manyglot.evaluation.metrics import BleuChrfScorer, score_translations
from tests.evaluation.test_ngram_matches import corrupted, phrases


def test_perfect_and_wrong_translations() -> None:
    references = ["the cat sleeps on the mat today", "a dog runs through the park"]
    perfect = score_translations(references, references, "en")
    assert (perfect.bleu, perfect.chrf) == (pytest.approx(100), pytest.approx(100))
    assert score_translations(["x", "y"], references, "en").bleu < 1


def test_signatures_name_the_tokenizer() -> None:
    assert "tok:13a" in score_translations(["a"], ["a"], "de").bleu_signature
    assert "tok:zh" in score_translations(["你好"], ["你好"], "zh").bleu_signature
    assert "tok:zh" in score_translations(["你好"], ["你好"], "zh-tw").bleu_signature
    assert "nw:2" in score_translations(["a"], ["a"], "de").chrf_signature, "chrF++ counts words too"


def test_chinese_is_split_into_characters() -> None:
    assert score_translations(["我 喜 欢 你 们"], ["我喜欢你们"], "zh").bleu == pytest.approx(100)


def test_unequal_lengths_are_refused() -> None:
    with pytest.raises(ManyglotError, match=r"translations \(2\) differs from the number of references \(1\)"):
        score_translations(["a", "b"], ["a"], "de")


def test_the_tokenizer_is_a_setting() -> None:
    assert "tok:13a" in score_translations(["你好"], ["你好"], "zh", BleuChrfScorer("13a")).bleu_signature
    codes = ["ko", "jpn", "zh-tw", "cmn_Hans", "de"]
    assert {code: BleuChrfScorer("mecab").tokenizer_name(code) for code in codes} == {
        "ko": "ko-mecab", "jpn": "ja-mecab", "zh-tw": "zh", "cmn_Hans": "zh", "de": "13a",
    }  # fmt: skip
    assert BleuChrfScorer("flores200").tokenizer_name("zh") == "flores200"


@pytest.mark.parametrize("code", ["ja", "ko"])
def test_a_missing_tokenizer_names_its_extra(monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    monkeypatch.setattr(f"sacrebleu.tokenizers.tokenizer_{code}_mecab.MeCab", None)
    metrics._bleu_metric.cache_clear()
    with pytest.raises(ManyglotError, match=rf"pip install 'manyglot\[{code}\]'"):
        score_translations(["x"], ["x"], code, BleuChrfScorer("mecab"))


@pytest.mark.parametrize(
    ("code", "name", "module"), [("ja", "ja-mecab", "MeCab"), ("ko", "ko-mecab", "mecab_ko"), ("zh", "zh", "sacrebleu")]
)
def test_tokenized_languages_match_sacrebleu(code: str, name: str, module: str) -> None:
    pytest.importorskip(module)
    metrics._bleu_metric.cache_clear()
    rows = PhrasebookCorpus(PhrasebookSettings(languages=("en", code), test_rows=100)).rows(Split.TEST)
    references = [row[code] for row in rows]
    outputs = corrupted(references, seed=1)
    score, metric = score_translations(outputs, references, code, BleuChrfScorer("mecab")), BLEU(tokenize=name)
    assert score.bleu == metric.corpus_score(outputs, [references]).score
    assert score.bleu_signature == str(metric.get_signature())


def test_spbleu_matches_sacrebleu_and_needs_its_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("sacrebleu.utils", "sacrebleu.tokenizers.tokenizer_spm"):
        monkeypatch.setattr(f"{module}.SACREBLEU_DIR", str(tmp_path))
    metrics._bleu_metric.cache_clear()
    model = tmp_path / "models" / "flores200sacrebleuspm"
    with pytest.raises(ManyglotError, match=rf"spBLEU needs the model {model}.*--tokenize flores200"):
        BleuChrfScorer("flores200").check_tokenizers_installed(["de"])
    model.parent.mkdir()
    for damaged in (b"", b"<html>"):
        model.write_bytes(damaged)
        with pytest.raises(ManyglotError, match="is not a SentencePiece model"):
            BleuChrfScorer("flores200").check_tokenizers_installed(["de"])
    references = phrases()["de"]
    written = io.BytesIO()
    SentencePieceTrainer.train(sentence_iterator=iter(references), model_writer=written, vocab_size=150, minloglevel=2)
    model.write_bytes(written.getvalue())
    outputs = corrupted(references, seed=1)
    score, metric = (
        score_translations(outputs, references, "de", BleuChrfScorer("flores200")),
        BLEU(tokenize="flores200"),
    )
    assert score.bleu == metric.corpus_score(outputs, [references]).score
    assert score.bleu_signature == str(metric.get_signature())
    metrics._bleu_metric.cache_clear()


def test_tokenized_text_is_detokenized_first() -> None:
    pytest.importorskip("sacremoses")
    scorer = BleuChrfScorer(detokenize=True)
    assert scorer.detokenize_if_enabled(["Hello , world ! ( yes )"], "en") == ["Hello, world! (yes)"]
    score = score_translations(["Well , it 's a very good day !"], ["Well, it's a very good day!"], "en", scorer)
    assert score.bleu == pytest.approx(100)
    assert score.bleu_signature.endswith("|detok:sacremoses")


def test_detokenization_needs_sacremoses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sacremoses", None)
    metrics._load_detokenizer.cache_clear()
    with pytest.raises(ManyglotError, match=r"pip install 'manyglot\[moses\]'"):
        BleuChrfScorer(detokenize=True).check_tokenizers_installed(["de"])
