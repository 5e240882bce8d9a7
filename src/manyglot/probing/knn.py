"""Leave-one-out k-nearest-neighbor prediction of the typological features of languages.

A feature of a language is predicted from the k nearest languages that have a value for it. Features that are known for
the same languages share their neighbors and are predicted together. Many rankings (random baselines, permutations) are
evaluated in one call.

Shape letters: N rankings, L languages, M the other languages ranked by similarity, F features, K values of k;
G the languages that have a feature, P positions among the nearest, H the language that is held out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manyglot.probing.uriel import UNKNOWN_VALUE, BinaryFeatureSet, FeatureValues

DEFAULT_K_VALUES = (1, 3, 5, 7, 9)
"""The values of k in the paper."""
MAX_VOTES_IN_MEMORY = 2**24
"""Limit on the number of votes held in memory at once."""

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]
Bools = NDArray[np.bool_]


class VotingRule(StrEnum):
    """How the neighbors' values decide a prediction."""

    MAJORITY = "majority"
    """The majority of the available neighbors; a tie is decided without the farthest one."""
    PAPER = "paper"
    """A value needs more than k / 2 votes, even where fewer than k languages have the feature."""


@dataclass(frozen=True)
class CorrectCounts:
    """Numbers of correct predictions in a feature set."""

    num_correct_NLK: Floats
    num_predictions_L: Floats
    num_correct_without_NHLK: NDArray[np.float32]
    """Correct predictions per language when language H is held out entirely; 0 for H itself."""

    def accuracy_by_k(self) -> Floats:
        """Return the accuracy over languages and features for each k, in percent (N, K)."""
        return np.asarray(100 * self.num_correct_NLK.sum(axis=1) / self.num_predictions_L.sum())

    def accuracy_contributions_with_held_out_language(self) -> Floats:
        """Return each language's contribution to the accuracy with H held out, in percent; nan if nothing remains."""
        total_H = self.num_predictions_L.sum() - self.num_predictions_L
        return np.asarray(100 * self.num_correct_without_NHLK / np.where(total_H > 0, total_H, np.nan)[:, None, None])

    def accuracy_with_own_k(self, k_index_NL: Indices) -> Floats:
        """Return the accuracy in percent (N) when each language uses its own k, given as an index into the k values."""
        num_correct_NL = np.take_along_axis(self.num_correct_NLK, k_index_NL[:, :, None], axis=2)[:, :, 0]
        return np.asarray(100 * num_correct_NL.sum(axis=1) / self.num_predictions_L.sum())


def cosine_similarities(representation: NDArray[Any]) -> Floats:
    """Return the similarity of all language pairs: the cosine of vectors, or the mean row-wise cosine of matrices."""
    rows = representation.reshape(len(representation), -1, representation.shape[-1]).astype(np.float32)
    length = np.linalg.norm(rows, axis=-1, keepdims=True)
    rows /= np.where(length > 0, length, 1)
    flat_LD = rows.reshape(len(rows), -1)
    return np.asarray(flat_LD @ flat_LD.T / rows.shape[1], np.float64)


def rank_neighbors(similarity_NLL: Floats) -> Indices:
    """Return the other languages of each language, nearest first; ties keep the order of the languages."""
    away_NLL = -similarity_NLL
    diagonal = np.arange(away_NLL.shape[-1])
    away_NLL[..., diagonal, diagonal] = np.inf
    return np.argsort(away_NLL, axis=-1, kind="stable")[..., :-1]


def count_correct_predictions(
    ranking_NLM: Indices,
    features: BinaryFeatureSet,
    k_values: Sequence[int],
    voting_rule: VotingRule,
    nested: bool = True,
) -> CorrectCounts:
    """Predict every feature of every language from the other languages and count the correct predictions.

    With `nested`, also count them with each other language held out; otherwise `num_correct_without_NHLK` is empty.
    """
    num_rankings, num_languages, _ = ranking_NLM.shape
    num_correct_NLK = np.zeros((num_rankings, num_languages, len(k_values)))
    num_held_out = num_languages if nested else 0
    change_NHLK = np.zeros((num_rankings, num_held_out, num_languages, len(k_values)), np.float32)
    num_predictions_L = np.zeros(num_languages)
    for rows_G, value_GF in _group_by_coverage(features.value_LF):
        num_predictions_L[rows_G] += value_GF.shape[1]
        chunk_size = max(1, MAX_VOTES_IN_MEMORY // (value_GF.size * (max(k_values) + 1)))
        for start in range(0, num_rankings, chunk_size):
            chunk = slice(start, start + chunk_size)
            nearest_NGP = _nearest(ranking_NLM[chunk], rows_G, num_languages, max(k_values) + 1)
            index_L = np.zeros(num_languages, np.intp)
            index_L[rows_G] = np.arange(len(rows_G))
            same_NGPF = value_GF[index_L[nearest_NGP]] == value_GF[:, None, :]
            for i, k in enumerate(k_values):
                correct_NG = _count_correct(same_NGPF, k, len(rows_G) - 1, voting_rule)
                num_correct_NLK[chunk, rows_G, i] += correct_NG
                if not nested:
                    continue
                change_NGP = _count_correct_without(same_NGPF, k, len(rows_G) - 1, voting_rule) - correct_NG[:, :, None]
                # No neighbor occurs twice, so one indexed addition covers all of them.
                held_out_NGP = nearest_NGP[:, :, : change_NGP.shape[2]]
                ranking = start + np.arange(len(held_out_NGP))[:, None, None]
                change_NHLK[ranking, held_out_NGP, rows_G[:, None], i] += change_NGP
    change_NHLK += num_correct_NLK[:, None]
    change_NHLK[:, np.arange(num_held_out), np.arange(num_held_out)] = 0
    return CorrectCounts(num_correct_NLK, num_predictions_L, change_NHLK)


def _group_by_coverage(value_LF: FeatureValues) -> Iterator[tuple[Indices, FeatureValues]]:
    """Yield features known for the same set of languages: the languages and their values.

    Features known for a single language are skipped, since nothing predicts them.
    """
    known_LF = value_LF != UNKNOWN_VALUE
    patterns, pattern_F = np.unique(known_LF, axis=1, return_inverse=True)
    for i, known_L in enumerate(patterns.T):
        if known_L.sum() > 1:
            rows_G = np.flatnonzero(known_L)
            yield rows_G, value_LF[np.ix_(rows_G, np.flatnonzero(pattern_F.ravel() == i))]


def _nearest(ranking_NLM: Indices, rows_G: Indices, num_languages: int, max_neighbors: int) -> Indices:
    """Return the nearest neighbors of the languages `rows_G` among themselves."""
    is_candidate_L = np.zeros(num_languages, np.bool_)
    is_candidate_L[rows_G] = True
    ranking_NGM = ranking_NLM[:, rows_G]
    candidates = ranking_NGM[is_candidate_L[ranking_NGM]]  # the same number for every language
    return candidates.reshape(len(ranking_NLM), len(rows_G), len(rows_G) - 1)[:, :, :max_neighbors]


def _count_correct(same_NGPF: Bools, k: int, available: int, voting_rule: VotingRule) -> Floats:
    """Count the correct predictions of each language from k neighbors, summed over features.

    Values are 0 or 1, so a prediction is correct when most neighbors share the language's own value.
    """
    num_voters = min(k, available)
    votes_NGF = same_NGPF[:, :, :num_voters].sum(axis=2, dtype=np.int16)
    correct_NGF = _is_correct(votes_NGF, num_voters, same_NGPF[:, :, num_voters - 1], k, voting_rule)
    return np.asarray(correct_NGF.sum(axis=-1), np.float64)


def _count_correct_without(same_NGPF: Bools, k: int, available: int, voting_rule: VotingRule) -> Floats:
    """Like `_count_correct`, with each neighbor held out in turn; the next neighbor, if any, replaces it."""
    reach = min(k + 1, available)
    votes_NGF = same_NGPF[:, :, :reach].sum(axis=2, dtype=np.int16)
    correct = []
    for position in range(min(k, available)):
        farthest = reach - 1 if position != reach - 1 else max(reach - 2, 0)
        remaining_NGF = votes_NGF - same_NGPF[:, :, position]
        correct.append(_is_correct(remaining_NGF, reach - 1, same_NGPF[:, :, farthest], k, voting_rule).sum(axis=-1))
    return np.stack(correct, axis=-1).astype(np.float64)


def _is_correct(votes: NDArray[np.int16], num_voters: int, farthest: Bools, k: int, voting_rule: VotingRule) -> Bools:
    """Return whether a language's own value is predicted, given its `votes` among `num_voters` neighbors."""
    if voting_rule is VotingRule.PAPER:
        return np.asarray(2 * votes > k)
    if num_voters == 0:
        return np.zeros(votes.shape, np.bool_)
    return np.asarray((2 * votes > num_voters) | ((2 * votes == num_voters) & ~farthest))
