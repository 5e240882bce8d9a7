from __future__ import annotations

import numpy as np
import pytest

from manyglot.evaluation import bootstrap
from manyglot.evaluation.bootstrap import (
    bootstrap_bleu_difference,
    poisson_sample_counts,
    significance_from_samples,
    significance_of_mean,
)
from manyglot.evaluation.metrics import BleuChrfScorer, corpus_bleu
from tests.evaluation.test_ngram_matches import corrupted, phrases

REFERENCES = phrases()["de"]
KEYS = np.arange(len(REFERENCES))


def counts(outputs: list[str]) -> np.ndarray:
    return (
        BleuChrfScorer().index_references(REFERENCES, "de").count_matches(outputs, range(len(outputs))).bleu_counts_NS
    )


GOOD = counts([*REFERENCES[:90], *corrupted(REFERENCES[90:], seed=1)])
BAD, ALSO_BAD = counts(corrupted(REFERENCES, seed=2)), counts(corrupted(REFERENCES, seed=3))


def test_samples_match_a_plain_loop() -> None:
    differences = bootstrap_bleu_difference(GOOD, BAD, KEYS, num_bootstrap_samples=22, seed=4)
    counts_NR = poisson_sample_counts(KEYS, range(24), seed=4)
    assert differences.resampled_differences_R == pytest.approx(
        [difference(counts_NR[:, r]) for r in range(22)], abs=1e-9
    )
    assert differences.difference == difference(np.ones(120, dtype=np.int64))


def difference(counts_N: np.ndarray) -> float:
    """The BLEU difference of GOOD and BAD, with each sentence repeated as often as `counts_N` says."""
    good, bad = (corpus_bleu(np.repeat(counts_NS, counts_N, axis=0).sum(axis=0).tolist()) for counts_NS in (GOOD, BAD))
    return good - bad


def test_a_sentence_is_sampled_once_on_average_and_independently() -> None:
    counts_NR = poisson_sample_counts(np.arange(500), range(1000), seed=1).astype(np.float64)
    assert counts_NR.mean() == pytest.approx(1, abs=0.01)
    assert counts_NR.var() == pytest.approx(1, abs=0.02)
    assert counts_NR.max() > 5
    for table in (counts_NR, counts_NR.T):
        off_diagonal = np.corrcoef(table)[~np.eye(len(table), dtype=np.bool_)]
        assert off_diagonal.mean() == pytest.approx(0, abs=0.01)
        assert abs(off_diagonal).max() < 0.25


def test_poisson_counts_match_sampling_with_replacement() -> None:
    rng = np.random.default_rng(5)
    rows = rng.integers(0, 120, size=(4000, 120))
    plain = np.array([difference(np.bincount(row, minlength=120)) for row in rows])
    differences = bootstrap_bleu_difference(GOOD, BAD, KEYS, 4000, 1).resampled_differences_R
    assert differences.mean() == pytest.approx(plain.mean(), rel=0.02)
    assert differences.std() == pytest.approx(plain.std(), rel=0.05)


def test_large_differences_are_significant_and_small_ones_are_not() -> None:
    assert bootstrap_bleu_difference(GOOD, BAD, KEYS, 1000, 1).significance().p_value < 0.01
    assert bootstrap_bleu_difference(BAD, ALSO_BAD, KEYS, 1000, 1).significance().p_value > 0.05
    same = bootstrap_bleu_difference(BAD, BAD, KEYS, 100, 1).significance()
    assert (same.difference, same.p_value) == (0, 1)


def test_samples_are_deterministic_and_independent_of_other_sentences(monkeypatch: pytest.MonkeyPatch) -> None:
    first = bootstrap_bleu_difference(GOOD, BAD, KEYS, 100, 1)
    monkeypatch.setattr(bootstrap, "MAX_CELLS_PER_CHUNK", 120 * 30)
    assert (
        bootstrap_bleu_difference(GOOD, BAD, KEYS, 100, 1).resampled_differences_R == first.resampled_differences_R
    ).all(), "chunks change nothing"
    assert (
        bootstrap_bleu_difference(GOOD, BAD, KEYS, 100, 2).resampled_differences_R != first.resampled_differences_R
    ).any()
    assert (
        bootstrap_bleu_difference(GOOD, BAD, KEYS + 120, 100, 1).resampled_differences_R
        != first.resampled_differences_R
    ).any()
    some = [5, 3, 77]
    assert (poisson_sample_counts(KEYS[some], range(40), 1) == poisson_sample_counts(KEYS, range(40), 1)[some]).all()


def test_many_directions_are_more_certain_only_if_their_sentences_differ() -> None:
    alone = bootstrap_bleu_difference(BAD, ALSO_BAD, KEYS, 500, 1).significance()
    others = significance_of_mean([bootstrap_bleu_difference(BAD, ALSO_BAD, KEYS + 120 * i, 500, 1) for i in range(6)])
    assert others.difference == pytest.approx(alone.difference)
    assert others.p_value < alone.p_value
    assert significance_of_mean([bootstrap_bleu_difference(BAD, ALSO_BAD, KEYS, 500, 1)] * 6).p_value == alone.p_value


def test_the_p_value_counts_samples_at_least_as_far_from_their_mean() -> None:
    resampled = np.array([1.0, 2.0, 3.0, 4.0])
    assert significance_from_samples(1.4, resampled).p_value == (2 + 1) / (4 + 1)
