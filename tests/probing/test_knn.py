from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from manyglot.probing import knn as module
from manyglot.probing.knn import (
    DEFAULT_K_VALUES,
    VotingRule,
    cosine_similarities,
    count_correct_predictions,
    rank_neighbors,
)
from manyglot.probing.uriel import UNKNOWN_VALUE, BinaryFeatureSet


def some_features(num_languages: int = 14, num_features: int = 9, seed: int = 1) -> BinaryFeatureSet:
    rng = np.random.default_rng(seed)
    value_LF = rng.integers(0, 2, (num_languages, num_features)).astype(np.int8)
    value_LF[rng.random(value_LF.shape) < 0.4] = UNKNOWN_VALUE
    value_LF[:, 0] = UNKNOWN_VALUE
    value_LF[3, 0] = 1  # one language alone
    value_LF[[1, 2], 1], value_LF[3:, 1], value_LF[0, 1] = [1, 0], UNKNOWN_VALUE, UNKNOWN_VALUE
    return BinaryFeatureSet("syntax", "WALS", tuple(map(str, range(num_features))), value_LF)


def is_predicted(near: list[int], own: int, k: int, voting_rule: VotingRule) -> bool:
    """Whether the neighbors predict the language's own value: the plain definition."""
    near = near[:k]
    if voting_rule is VotingRule.PAPER:
        return near.count(own) > k / 2
    if len(near) % 2 == 0 and near.count(own) * 2 == len(near):
        near = near[:-1]
    return bool(near) and near.count(own) * 2 > len(near)


def plain_num_correct(
    similarity_LL: NDArray[np.float64],
    features: BinaryFeatureSet,
    k: int,
    voting_rule: VotingRule,
    held_out: int | None = None,
) -> NDArray[np.float64]:
    """Count the correct predictions of each language one by one, optionally with one language held out."""
    value_LF, num_correct_L = features.value_LF, np.zeros(len(features.value_LF))
    for language in range(len(value_LF)):
        order = np.argsort(-similarity_LL[language], kind="stable")
        for feature in range(value_LF.shape[1]):
            own = int(value_LF[language, feature])
            has = value_LF[:, feature] != UNKNOWN_VALUE
            if own == UNKNOWN_VALUE or language == held_out or has.sum() < 2:
                continue
            near = [int(value_LF[o, feature]) for o in order if o not in (language, held_out) and has[o]]
            num_correct_L[language] += is_predicted(near, own, k, voting_rule)
    return num_correct_L


@pytest.mark.parametrize("voting_rule", VotingRule)
@pytest.mark.parametrize("max_votes", [1, 2**24])
def test_counts_match_the_plain_definition_with_and_without_a_held_out_language(
    voting_rule: VotingRule, max_votes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_VOTES_IN_MEMORY", max_votes)
    features = some_features()
    similarity_NLL = np.stack(
        [cosine_similarities(np.random.default_rng(i).standard_normal((14, 6))) for i in range(3)]
    )
    counts = count_correct_predictions(rank_neighbors(similarity_NLL), features, DEFAULT_K_VALUES, voting_rule)
    for i, similarity_LL in enumerate(similarity_NLL):
        for k_index, k in enumerate(DEFAULT_K_VALUES):
            expected_L = plain_num_correct(similarity_LL, features, k, voting_rule)
            np.testing.assert_array_equal(counts.num_correct_NLK[i, :, k_index], expected_L)
            without_HL = [plain_num_correct(similarity_LL, features, k, voting_rule, held_out=i) for i in range(14)]
            np.testing.assert_array_equal(counts.num_correct_without_NHLK[i, :, :, k_index], without_HL)


def test_a_feature_known_for_one_language_is_not_counted() -> None:
    features = some_features()
    known_LF = features.value_LF != UNKNOWN_VALUE
    counts = count_correct_predictions(
        rank_neighbors(np.random.default_rng(1).random((1, 14, 14))), features, (1,), VotingRule.MAJORITY
    )
    assert counts.num_predictions_L.sum() == known_LF[:, 1:].sum()


def test_with_few_languages_the_papers_rule_fails_and_the_majority_rule_does_not() -> None:
    features = BinaryFeatureSet("syntax", "WALS", ("S_0",), np.ones((5, 1), np.int8))
    ranking_NLM = rank_neighbors(np.random.default_rng(1).random((1, 5, 5)))
    paper, majority = (
        count_correct_predictions(ranking_NLM, features, DEFAULT_K_VALUES, rule).accuracy_by_k()
        for rule in (VotingRule.PAPER, VotingRule.MAJORITY)
    )
    assert paper.tolist() == [[100, 100, 100, 100, 0]]
    assert majority.tolist() == [[100] * 5]


def test_similarity_is_the_cosine_of_vectors_and_the_mean_row_wise_cosine_of_matrices() -> None:
    matrix_LRD = np.random.default_rng(1).standard_normal((4, 3, 5))
    matrix_LRD[2, 1] = 0
    for left in range(4):
        for right in range(4):
            cosines = []
            for one, other in zip(matrix_LRD[left], matrix_LRD[right], strict=True):
                length = np.linalg.norm(one) * np.linalg.norm(other)
                cosines.append(one @ other / length if length else 0.0)
            assert cosine_similarities(matrix_LRD)[left, right] == pytest.approx(np.mean(cosines), abs=1e-6)
            assert cosine_similarities(matrix_LRD[:, 0])[left, right] == pytest.approx(cosines[0], abs=1e-6)


def test_neighbors_are_ranked_nearest_first_without_the_language_itself() -> None:
    similarity_LL = np.array([[0.0, 0.2, 0.9, 0.2], [0.2, 0, 0, 0], [0.9, 0, 0, 1], [0.2, 0, 1, 0]])
    assert rank_neighbors(similarity_LL[None])[0].tolist() == [[2, 1, 3], [0, 2, 3], [3, 0, 1], [2, 0, 1]]
