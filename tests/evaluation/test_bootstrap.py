from __future__ import annotations

import numpy as np
import pytest

from manyglot.evaluation import bootstrap
from manyglot.evaluation.bootstrap import overall, resample, significance, times_drawn
from manyglot.evaluation.scores import Measure, bleu_score
from tests.evaluation.test_ngrams import phrases, spoilt

REFERENCES = phrases()["de"]
KEYS = np.arange(len(REFERENCES))


def counts(outputs: list[str]) -> np.ndarray:
    return Measure().read(REFERENCES, "de").compare(outputs, range(len(outputs))).bleu_NS


GOOD = counts([*REFERENCES[:90], *spoilt(REFERENCES[90:], seed=1)])
BAD, ALSO_BAD = counts(spoilt(REFERENCES, seed=2)), counts(spoilt(REFERENCES, seed=3))


def test_draws_are_those_of_a_plain_loop() -> None:
    drawn = resample(GOOD, BAD, KEYS, num_samples=22, seed=4)
    times_NR = times_drawn(KEYS, range(24), seed=4)
    assert drawn.resampled_R == pytest.approx([difference(times_NR[:, r]) for r in range(22)], abs=1e-9)
    assert drawn.difference == difference(np.ones(120, dtype=np.int64))


def difference(times_N: np.ndarray) -> float:
    """That of GOOD and BAD, with each sentence so many times."""
    good, bad = (bleu_score(np.repeat(each, times_N, axis=0).sum(axis=0).tolist()) for each in (GOOD, BAD))
    return good - bad


def test_a_sentence_is_drawn_once_on_average_and_at_random() -> None:
    times_NR = times_drawn(np.arange(500), range(1000), seed=1).astype(np.float64)
    assert times_NR.mean() == pytest.approx(1, abs=0.01)
    assert times_NR.var() == pytest.approx(1, abs=0.02)
    assert times_NR.max() > 5
    for table in (times_NR, times_NR.T):
        apart = np.corrcoef(table)[~np.eye(len(table), dtype=np.bool_)]
        assert apart.mean() == pytest.approx(0, abs=0.01)
        assert abs(apart).max() < 0.25


def test_p_values_are_those_of_drawing_as_many_sentences_as_there_are() -> None:
    rng = np.random.default_rng(5)
    rows = rng.integers(0, 120, size=(4000, 120))
    plain = np.array([difference(np.bincount(row, minlength=120)) for row in rows])
    drawn = resample(GOOD, BAD, KEYS, 4000, 1).resampled_R
    assert drawn.mean() == pytest.approx(plain.mean(), rel=0.02)
    assert drawn.std() == pytest.approx(plain.std(), rel=0.05)


def test_a_large_difference_is_none_of_chance_and_a_small_one_is() -> None:
    assert resample(GOOD, BAD, KEYS, 1000, 1).significance().p_value < 0.01
    assert resample(BAD, ALSO_BAD, KEYS, 1000, 1).significance().p_value > 0.05
    same = resample(BAD, BAD, KEYS, 100, 1).significance()
    assert (same.difference, same.p_value) == (0, 1)


def test_it_repeats_itself_and_knows_no_company(monkeypatch: pytest.MonkeyPatch) -> None:
    first = resample(GOOD, BAD, KEYS, 100, 1)
    monkeypatch.setattr(bootstrap, "CELLS_AT_ONCE", 120 * 30)
    assert (resample(GOOD, BAD, KEYS, 100, 1).resampled_R == first.resampled_R).all(), "in parts as at once"
    assert (resample(GOOD, BAD, KEYS, 100, 2).resampled_R != first.resampled_R).any()
    assert (resample(GOOD, BAD, KEYS + 120, 100, 1).resampled_R != first.resampled_R).any()
    some = [5, 3, 77]
    assert (times_drawn(KEYS[some], range(40), 1) == times_drawn(KEYS, range(40), 1)[some]).all()


def test_many_directions_are_surer_than_one_only_if_their_sentences_are_not_the_same() -> None:
    alone = resample(BAD, ALSO_BAD, KEYS, 500, 1).significance()
    others = overall([resample(BAD, ALSO_BAD, KEYS + 120 * i, 500, 1) for i in range(6)])
    assert others.difference == pytest.approx(alone.difference)
    assert others.p_value < alone.p_value
    assert overall([resample(BAD, ALSO_BAD, KEYS, 500, 1)] * 6).p_value == alone.p_value


def test_the_p_value_counts_draws_that_are_as_far_from_their_mean() -> None:
    resampled = np.array([1.0, 2.0, 3.0, 4.0])
    assert significance(1.4, resampled).p_value == (2 + 1) / (4 + 1)
