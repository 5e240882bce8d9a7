from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from manyglot.probing import neighbours as module
from manyglot.probing.neighbours import NEIGHBOURS, Vote, count, ranked, similarities
from manyglot.probing.uriel import UNKNOWN, FeatureSet


def some_features(num_languages: int = 14, num_features: int = 9, seed: int = 1) -> FeatureSet:
    rng = np.random.default_rng(seed)
    value_LF = rng.integers(0, 2, (num_languages, num_features)).astype(np.int8)
    value_LF[rng.random(value_LF.shape) < 0.4] = UNKNOWN
    value_LF[:, 0] = UNKNOWN
    value_LF[3, 0] = 1  # one language alone
    value_LF[[1, 2], 1], value_LF[3:, 1], value_LF[0, 1] = [1, 0], UNKNOWN, UNKNOWN
    return FeatureSet("syntax", "WALS", tuple(map(str, range(num_features))), value_LF)


def predicts(near: list[int], own: int, k: int, vote: Vote) -> bool:
    """The definition, vote by vote."""
    near = near[:k]
    if vote is Vote.PAPER:
        return near.count(own) > k / 2
    if len(near) % 2 == 0 and near.count(own) * 2 == len(near):
        near = near[:-1]
    return bool(near) and near.count(own) * 2 > len(near)


def plain_right(
    similarity_LL: NDArray[np.float64], features: FeatureSet, k: int, vote: Vote, without: int | None = None
) -> NDArray[np.float64]:
    """Right predictions of each language, one by one; a language may take no part."""
    value_LF, right_L = features.value_LF, np.zeros(len(features.value_LF))
    for language in range(len(value_LF)):
        order = np.argsort(-similarity_LL[language], kind="stable")
        for feature in range(value_LF.shape[1]):
            own = int(value_LF[language, feature])
            has = value_LF[:, feature] != UNKNOWN
            if own == UNKNOWN or language == without or has.sum() < 2:
                continue
            near = [int(value_LF[o, feature]) for o in order if o not in (language, without) and has[o]]
            right_L[language] += predicts(near, own, k, vote)
    return right_L


@pytest.mark.parametrize("vote", Vote)
@pytest.mark.parametrize("at_once", [1, 2**24])
def test_counts_are_those_of_the_definition_also_when_a_language_takes_no_part(
    vote: Vote, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "AT_ONCE", at_once)
    features = some_features()
    similarity_NLL = np.stack([similarities(np.random.default_rng(i).standard_normal((14, 6))) for i in range(3)])
    counts = count(ranked(similarity_NLL), features, NEIGHBOURS, vote)
    for i, similarity_LL in enumerate(similarity_NLL):
        for place, k in enumerate(NEIGHBOURS):
            expected_L = plain_right(similarity_LL, features, k, vote)
            np.testing.assert_array_equal(counts.right_NLK[i, :, place], expected_L)
            without_HL = [plain_right(similarity_LL, features, k, vote, without=left) for left in range(14)]
            np.testing.assert_array_equal(counts.without_NHLK[i, :, :, place], without_HL)


def test_a_feature_of_one_language_is_not_counted() -> None:
    features = some_features()
    known_LF = features.value_LF != UNKNOWN
    counts = count(ranked(np.random.default_rng(1).random((1, 14, 14))), features, (1,), Vote.MAJORITY)
    assert counts.total_L.sum() == known_LF[:, 1:].sum()


def test_the_papers_vote_collapses_where_there_are_few_languages_and_the_majority_does_not() -> None:
    features = FeatureSet("syntax", "WALS", ("S_0",), np.ones((5, 1), np.int8))
    order_NLM = ranked(np.random.default_rng(1).random((1, 5, 5)))
    assert count(order_NLM, features, NEIGHBOURS, Vote.PAPER).accuracy().tolist() == [[100, 100, 100, 100, 0]]
    assert count(order_NLM, features, NEIGHBOURS, Vote.MAJORITY).accuracy().tolist() == [[100] * 5]


def test_similarity_is_the_cosine_of_vectors_and_the_mean_of_row_wise_cosines_of_matrices() -> None:
    matrix_LRD = np.random.default_rng(1).standard_normal((4, 3, 5))
    matrix_LRD[2, 1] = 0
    for left in range(4):
        for right in range(4):
            cosines = []
            for one, other in zip(matrix_LRD[left], matrix_LRD[right], strict=True):
                length = np.linalg.norm(one) * np.linalg.norm(other)
                cosines.append(one @ other / length if length else 0.0)
            assert similarities(matrix_LRD)[left, right] == pytest.approx(np.mean(cosines), abs=1e-6)
            assert similarities(matrix_LRD[:, 0])[left, right] == pytest.approx(cosines[0], abs=1e-6)


def test_the_nearest_come_first_and_nobody_is_a_neighbour_of_itself() -> None:
    similarity_LL = np.array([[0.0, 0.2, 0.9, 0.2], [0.2, 0, 0, 0], [0.9, 0, 0, 1], [0.2, 0, 1, 0]])
    assert ranked(similarity_LL[None])[0].tolist() == [[2, 1, 3], [0, 2, 3], [3, 0, 1], [2, 0, 1]]
