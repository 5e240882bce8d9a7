"""Array-based n-gram counts match sacreBLEU, on real text of many scripts."""

from __future__ import annotations

import random
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from manyglot.corpus.base import Split
from manyglot.corpus.phrasebook import PhrasebookCorpus, PhrasebookSettings
from manyglot.evaluation import ngram_matches
from manyglot.evaluation.metrics import (
    BleuChrfScorer,
    corpus_bleu,
    corpus_bleu_batch,
    corpus_chrf,
    corpus_chrf_batch,
    score_translations,
)
from manyglot.evaluation.ngram_matches import ReferenceNgrams
from manyglot.evaluation.tokenizer_13a import tokenize_13a

SCRIPTS = ("am", "ar", "bn", "de", "el", "en", "he", "hi", "hy", "ka", "km", "ko", "ru", "ta", "th", "zh")


@cache
def phrases() -> dict[str, list[str]]:
    rows = list(PhrasebookCorpus(PhrasebookSettings(languages=SCRIPTS, test_rows=400)).rows(Split.TEST))
    rows = [row for row in rows if len(row) == len(SCRIPTS)][:120]
    assert len(rows) == 120
    return {code: [row[code] for row in rows] for code in SCRIPTS}


def corrupted(texts: list[str], seed: int = 0) -> list[str]:
    """Outputs of a mediocre model: words dropped, repeated, reordered or with punctuation; some empty."""
    rng = random.Random(seed)
    outputs = []
    for text in texts:
        words = text.split()
        rng.choice((rng.shuffle, lambda w: w.append(rng.choice(w)), lambda w: w.pop(), lambda w: w.insert(0, '("x,')))(
            words
        )
        outputs.append("" if rng.random() < 0.05 else " ".join(words) + rng.choice(("", "", ".", " !?")))
    return outputs


def sacrebleu_scores(outputs: list[str], references: list[str], tokenizer: str) -> tuple[float, float]:
    bleu, chrf = BLEU(tokenize=tokenizer), CHRF(word_order=2)
    return bleu.corpus_score(outputs, [references]).score, chrf.corpus_score(outputs, [references]).score


@pytest.mark.parametrize("code", SCRIPTS)
def test_scores_match_sacrebleu_exactly(code: str) -> None:
    references = phrases()[code]
    for outputs in (corrupted(references), phrases()["en"], references):
        ours = score_translations(outputs, references, code)
        assert (ours.bleu, ours.chrf) == sacrebleu_scores(outputs, references, "zh" if code == "zh" else "13a")


TEXT = st.lists(
    st.sampled_from(["a", "b", "ab", "a,b.", "(x)", "3-4", "&quot;", "犬", "é", "e\u0301", "\u200b", "\ud800"])
)


@given(st.lists(st.tuples(TEXT.map(" ".join), TEXT.map(" ".join)), min_size=1, max_size=6))
def test_any_text_scores_as_in_sacrebleu(pairs: list[tuple[str, str]]) -> None:
    outputs, references = [output for output, _ in pairs], [reference for _, reference in pairs]
    ours = score_translations(outputs, references, "de")
    assert (ours.bleu, ours.chrf) == sacrebleu_scores(outputs, references, "13a")


def test_references_serve_outputs_in_any_order() -> None:
    references = phrases()["de"]
    reference_ngrams = BleuChrfScorer().index_references(references, "de")
    indices = random.Random(1).choices(range(len(references)), k=200)
    outputs = corrupted([references[i] for i in indices], seed=2)
    together = reference_ngrams.count_matches(outputs, indices)
    for i in (0, 7, 199):
        alone = BleuChrfScorer().index_references([references[indices[i]]], "de").count_matches([outputs[i]], [0])
        assert (together.bleu_counts_NS[i] == alone.bleu_counts_NS[0]).all()
        assert (together.chrf_counts_NS[i] == alone.chrf_counts_NS[0]).all()


def test_sentences_are_counted_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    references, outputs = phrases()["ru"], corrupted(phrases()["ru"])
    whole = BleuChrfScorer().index_references(references, "ru").count_matches(outputs, range(len(outputs)))
    monkeypatch.setattr(ngram_matches, "SENTENCES_PER_CHUNK", 50)
    in_chunks = BleuChrfScorer().index_references(references, "ru").count_matches(outputs, range(len(outputs)))
    assert (whole.bleu_counts_NS == in_chunks.bleu_counts_NS).all()
    assert (whole.chrf_counts_NS == in_chunks.chrf_counts_NS).all()


def test_empty_corpora_and_texts() -> None:
    counts = ReferenceNgrams([], tokenize_13a).count_matches([], [])
    assert (counts.bleu_counts_NS.shape, counts.chrf_counts_NS.shape) == ((0, 10), (0, 24))
    assert score_translations(["", ""], ["", "a"], "de").bleu == 0


def test_batched_bleu_matches_single_corpora() -> None:
    counts = (
        BleuChrfScorer()
        .index_references(phrases()["de"], "de")
        .count_matches(corrupted(phrases()["de"]), range(120))
        .bleu_counts_NS
    )
    rng = np.random.default_rng(1)
    totals = np.stack([counts[rng.integers(0, 120, size=size)].sum(axis=0) for size in (1, 1, 1, 2, 3, 20, 120) * 8])
    assert corpus_bleu_batch(totals) == pytest.approx(
        [corpus_bleu(count_sums.tolist()) for count_sums in totals], abs=1e-9
    )


def test_batched_chrf_matches_single_sentences() -> None:
    references = [*phrases()["de"], "Hund", "", "犬"]
    outputs = [*corrupted(phrases()["de"]), "", "Katze", "犬"]
    reference_ngrams = BleuChrfScorer().index_references(references, "de")
    counts = reference_ngrams.count_matches(outputs, range(len(outputs))).chrf_counts_NS
    scores = corpus_chrf_batch(counts)
    assert scores.tolist() == pytest.approx([corpus_chrf(row) for row in counts.tolist()], abs=1e-9)
    assert scores[-3:].tolist() == [0, 0, 100]
    assert scores.std() > 1
