from __future__ import annotations

from zlib import crc32

import numpy as np
import pytest

from manyglot.corpus.languages import Direction
from manyglot.evaluation import bootstrap
from manyglot.evaluation.bootstrap import overall, resample, significance
from manyglot.evaluation.scores import Measure, bleu_score
from tests.evaluation.test_ngrams import phrases, spoilt

REFERENCES = phrases()["de"]
DE_EN = Direction("en", "de")


def counts(outputs: list[str]) -> np.ndarray:
    return Measure().read(REFERENCES, "de").compare(outputs, range(len(outputs))).bleu_NS


GOOD = counts([*REFERENCES[:90], *spoilt(REFERENCES[90:], seed=1)])
BAD, ALSO_BAD = counts(spoilt(REFERENCES, seed=2)), counts(spoilt(REFERENCES, seed=3))


def test_draws_are_those_of_a_plain_loop() -> None:
    drawn = resample(GOOD, BAD, DE_EN, num_samples=20, seed=4)
    rng = np.random.default_rng([4, crc32("en→de".encode())])
    rows = rng.integers(0, 120, size=(20, 120))
    plain = [bleu_score(GOOD[row].sum(axis=0).tolist()) - bleu_score(BAD[row].sum(axis=0).tolist()) for row in rows]
    assert drawn.resampled_R == pytest.approx(plain, abs=1e-9)
    assert drawn.difference == bleu_score(GOOD.sum(axis=0).tolist()) - bleu_score(BAD.sum(axis=0).tolist())


def test_a_large_difference_is_none_of_chance_and_a_small_one_is() -> None:
    assert resample(GOOD, BAD, DE_EN, 1000, 1).significance().p_value < 0.01
    assert resample(BAD, ALSO_BAD, DE_EN, 1000, 1).significance().p_value > 0.05
    same = resample(BAD, BAD, DE_EN, 100, 1).significance()
    assert (same.difference, same.p_value) == (0, 1)


def test_it_repeats_itself_and_knows_no_company(monkeypatch: pytest.MonkeyPatch) -> None:
    first = resample(GOOD, BAD, DE_EN, 100, 1)
    monkeypatch.setattr(bootstrap, "CELLS_AT_ONCE", 120 * 30)
    assert (resample(GOOD, BAD, DE_EN, 100, 1).resampled_R == first.resampled_R).all(), "in parts as at once"
    assert (resample(GOOD, BAD, DE_EN, 100, 2).resampled_R != first.resampled_R).any()
    assert (resample(GOOD, BAD, Direction("fr", "de"), 100, 1).resampled_R != first.resampled_R).any()


def test_many_directions_together_are_surer_than_one() -> None:
    drawn = [resample(BAD, ALSO_BAD, Direction(code, "de"), 500, 1) for code in ("en", "fr", "ru", "tr", "zh", "ar")]
    alone, together = drawn[0].significance(), overall(drawn)
    assert together.difference == pytest.approx(alone.difference)
    assert together.p_value < alone.p_value


def test_the_p_value_counts_draws_that_are_as_far_from_their_mean() -> None:
    resampled = np.array([1.0, 2.0, 3.0, 4.0])
    assert significance(1.4, resampled).p_value == (2 + 1) / (4 + 1)
