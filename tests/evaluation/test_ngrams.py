"""Counting n-grams in arrays gives what sacreBLEU counts in dictionaries, on real text of many scripts."""

from __future__ import annotations

import random
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from manyglot.corpus.phrasebook import Phrasebook, PhrasebookSettings
from manyglot.corpus.rows import Split
from manyglot.evaluation import ngrams
from manyglot.evaluation.ngrams import References
from manyglot.evaluation.scores import Measure, bleu_score, bleu_scores, score
from manyglot.evaluation.words import words_13a

SCRIPTS = ("am", "ar", "bn", "de", "el", "en", "he", "hi", "hy", "ka", "km", "ko", "ru", "ta", "th", "zh")


@cache
def phrases() -> dict[str, list[str]]:
    rows = list(Phrasebook(PhrasebookSettings(languages=SCRIPTS, test_rows=400)).rows(Split.TEST))
    rows = [row for row in rows if len(row) == len(SCRIPTS)][:120]
    assert len(rows) == 120
    return {code: [row[code] for row in rows] for code in SCRIPTS}


def spoilt(texts: list[str], seed: int = 0) -> list[str]:
    """Outputs of a mediocre model: words lost, doubled, in another order, with a mark; some empty."""
    rng = random.Random(seed)
    outputs = []
    for text in texts:
        words = text.split()
        rng.choice((rng.shuffle, lambda w: w.append(rng.choice(w)), lambda w: w.pop(), lambda w: w.insert(0, '("x,')))(
            words
        )
        outputs.append("" if rng.random() < 0.05 else " ".join(words) + rng.choice(("", "", ".", " !?")))
    return outputs


def theirs(outputs: list[str], references: list[str], tokenizer: str) -> tuple[float, float]:
    bleu, chrf = BLEU(tokenize=tokenizer), CHRF(word_order=2)
    return bleu.corpus_score(outputs, [references]).score, chrf.corpus_score(outputs, [references]).score


@pytest.mark.parametrize("code", SCRIPTS)
def test_scores_are_sacrebleu_s_to_the_last_digit(code: str) -> None:
    references = phrases()[code]
    for outputs in (spoilt(references), phrases()["en"], references):
        ours = score(outputs, references, code)
        assert (ours.bleu, ours.chrf) == theirs(outputs, references, "zh" if code == "zh" else "13a")


TEXT = st.lists(
    st.sampled_from(["a", "b", "ab", "a,b.", "(x)", "3-4", "&quot;", "犬", "é", "e\u0301", "\u200b", "\ud800"])
)


@given(st.lists(st.tuples(TEXT.map(" ".join), TEXT.map(" ".join)), min_size=1, max_size=6))
def test_any_text_scores_as_sacrebleu_scores_it(pairs: list[tuple[str, str]]) -> None:
    outputs, references = [output for output, _ in pairs], [reference for _, reference in pairs]
    ours = score(outputs, references, "de")
    assert (ours.bleu, ours.chrf) == theirs(outputs, references, "13a")


def test_references_are_read_once_for_outputs_in_any_order() -> None:
    references = phrases()["de"]
    read = Measure().read(references, "de")
    places = random.Random(1).choices(range(len(references)), k=200)
    outputs = spoilt([references[place] for place in places], seed=2)
    together = read.compare(outputs, places)
    for i in (0, 7, 199):
        alone = Measure().read([references[places[i]]], "de").compare([outputs[i]], [0])
        assert (together.bleu_NS[i] == alone.bleu_NS[0]).all()
        assert (together.chrf_NS[i] == alone.chrf_NS[0]).all()


def test_more_sentences_than_fit_are_counted_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    references, outputs = phrases()["ru"], spoilt(phrases()["ru"])
    whole = Measure().read(references, "ru").compare(outputs, range(len(outputs)))
    monkeypatch.setattr(ngrams, "ROWS_AT_ONCE", 50)
    parts = Measure().read(references, "ru").compare(outputs, range(len(outputs)))
    assert (whole.bleu_NS == parts.bleu_NS).all()
    assert (whole.chrf_NS == parts.chrf_NS).all()


def test_nothing_is_nothing() -> None:
    counts = References([], words_13a).compare([], [])
    assert (counts.bleu_NS.shape, counts.chrf_NS.shape) == ((0, 10), (0, 24))
    assert score(["", ""], ["", "a"], "de").bleu == 0


def test_many_corpora_at_once_have_the_bleu_of_each() -> None:
    counts = Measure().read(phrases()["de"], "de").compare(spoilt(phrases()["de"]), range(120)).bleu_NS
    rng = np.random.default_rng(1)
    totals = np.stack([counts[rng.integers(0, 120, size=size)].sum(axis=0) for size in (1, 1, 1, 2, 3, 20, 120) * 8])
    assert bleu_scores(totals) == pytest.approx([bleu_score(each.tolist()) for each in totals], abs=1e-9)
