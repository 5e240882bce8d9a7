"""Features of a language from those of its nearest neighbours, every language left out in turn.

A prediction for a feature goes by the k languages nearest among those that have a value for it. Features that the same
languages have share their neighbours, so the work is done for all of them at once, and for many similarities (draws of
random vectors, permutations) together.

Shape letters: N similarities, L languages, M the others in the order of their similarity, F features, K numbers of
neighbours; G the languages that have a feature, P places among the nearest, H languages that take no part.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manyglot.probing.uriel import UNKNOWN, FeatureSet, Values

NEIGHBOURS = (1, 3, 5, 7, 9)
"""The paper's numbers of neighbours."""
AT_ONCE = 2**24
"""Votes in memory at a time."""

Floats = NDArray[np.float64]
Order = NDArray[np.intp]
Bools = NDArray[np.bool_]


class Vote(StrEnum):
    """How neighbours decide."""

    MAJORITY = "majority"
    """The majority of the neighbours there are; in a tie, that of all but the farthest."""
    PAPER = "paper"
    """A value needs more than k / 2 votes, also where fewer than k languages have the feature."""


@dataclass(frozen=True)
class Counts:
    """What is predicted rightly in a set of features."""

    right_NLK: Floats
    total_L: Floats
    without_NHLK: NDArray[np.float32]
    """The right predictions of each language when another one (H) takes no part at all; of that one, none."""

    def accuracy(self) -> Floats:
        """The share of right predictions over languages and features, in per cent, for each number of neighbours."""
        return np.asarray(100 * self.right_NLK.sum(axis=1) / self.total_L.sum())

    def shares_without(self) -> Floats:
        """What each language adds to the accuracy, in per cent, when another one takes no part; nan if none is left."""
        total_H = self.total_L.sum() - self.total_L
        return np.asarray(100 * self.without_NHLK / np.where(total_H > 0, total_H, np.nan)[:, None, None])

    def accuracy_with(self, choice_NL: Order) -> Floats:
        """The share of right predictions when each language has its own number of neighbours."""
        right_NL = np.take_along_axis(self.right_NLK, choice_NL[:, :, None], axis=2)[:, :, 0]
        return np.asarray(100 * right_NL.sum(axis=1) / self.total_L.sum())


def similarities(representation: NDArray[Any]) -> Floats:
    """How alike languages are: the cosine of vectors, the mean of the row-wise cosines of matrices."""
    rows = representation.reshape(len(representation), -1, representation.shape[-1]).astype(np.float32)
    length = np.linalg.norm(rows, axis=-1, keepdims=True)
    rows /= np.where(length > 0, length, 1)
    flat_LD = rows.reshape(len(rows), -1)
    return np.asarray(flat_LD @ flat_LD.T / rows.shape[1], np.float64)


def ranked(similarity_NLL: Floats) -> Order:
    """The other languages of each, the nearest first; of those that are equally near, in their own order."""
    away_NLL = -similarity_NLL
    diagonal = np.arange(away_NLL.shape[-1])
    away_NLL[..., diagonal, diagonal] = np.inf
    return np.argsort(away_NLL, axis=-1, kind="stable")[..., :-1]


def count(order_NLM: Order, features: FeatureSet, neighbours: Sequence[int], vote: Vote, nested: bool = True) -> Counts:
    """Predict every feature of every language from the others, and count what is right.

    Unless it is `nested`, it is not counted what is right when another language takes no part.
    """
    num, num_languages, _ = order_NLM.shape
    right_NLK = np.zeros((num, num_languages, len(neighbours)))
    left_out = num_languages if nested else 0
    change_NHLK = np.zeros((num, left_out, num_languages, len(neighbours)), np.float32)
    total_L = np.zeros(num_languages)
    for rows_G, value_GF in _alike(features.value_LF):
        total_L[rows_G] += value_GF.shape[1]
        step = max(1, AT_ONCE // (value_GF.size * (max(neighbours) + 1)))
        for start in range(0, num, step):
            some = slice(start, start + step)
            nearest_NGP = _nearest(order_NLM[some], rows_G, num_languages, max(neighbours) + 1)
            place_L = np.zeros(num_languages, np.intp)
            place_L[rows_G] = np.arange(len(rows_G))
            same_NGPF = value_GF[place_L[nearest_NGP]] == value_GF[:, None, :]
            for i, k in enumerate(neighbours):
                right_NG = _judge(same_NGPF, k, len(rows_G) - 1, vote)
                right_NLK[some, rows_G, i] += right_NG
                if not nested:
                    continue
                change_NGP = _judge_without(same_NGPF, k, len(rows_G) - 1, vote) - right_NG[:, :, None]
                who_NGP = nearest_NGP[
                    :, :, : change_NGP.shape[2]
                ]  # no language twice, so that all can be added at once
                change_NHLK[start + np.arange(len(who_NGP))[:, None, None], who_NGP, rows_G[:, None], i] += change_NGP
    change_NHLK += right_NLK[:, None]
    change_NHLK[:, np.arange(left_out), np.arange(left_out)] = 0
    return Counts(right_NLK, total_L, change_NHLK)


def _alike(value_LF: Values) -> Iterator[tuple[Order, Values]]:
    """Features that the same languages have: those languages, and their values. One language alone predicts nothing."""
    known_LF = value_LF != UNKNOWN
    patterns, pattern_F = np.unique(known_LF, axis=1, return_inverse=True)
    for i, known_L in enumerate(patterns.T):
        if known_L.sum() > 1:
            rows_G = np.flatnonzero(known_L)
            yield rows_G, value_LF[np.ix_(rows_G, np.flatnonzero(pattern_F.ravel() == i))]


def _nearest(order_NLM: Order, rows_G: Order, num_languages: int, most: int) -> Order:
    """The nearest of some languages to each of them."""
    has_L = np.zeros(num_languages, np.bool_)
    has_L[rows_G] = True
    order_NGM = order_NLM[:, rows_G]
    among = order_NGM[has_L[order_NGM]]  # every language keeps as many others
    return among.reshape(len(order_NLM), len(rows_G), len(rows_G) - 1)[:, :, :most]


def _judge(same_NGPF: Bools, k: int, available: int, vote: Vote) -> Floats:
    """The right predictions of each language from k neighbours.

    Values are 0 or 1, so a prediction is right when most of the neighbours have the language's own value.
    """
    number = min(k, available)
    votes_NGF = same_NGPF[:, :, :number].sum(axis=2, dtype=np.int16)
    right_NGF = _is_right(votes_NGF, number, same_NGPF[:, :, number - 1], k, vote)
    return np.asarray(right_NGF.sum(axis=-1), np.float64)


def _judge_without(same_NGPF: Bools, k: int, available: int, vote: Vote) -> Floats:
    """The same without each of the neighbours in turn: the next one takes part, if there is one."""
    reach = min(k + 1, available)
    votes_NGF = same_NGPF[:, :, :reach].sum(axis=2, dtype=np.int16)
    right = []
    for place in range(min(k, available)):
        farthest = reach - 1 if place != reach - 1 else max(reach - 2, 0)
        left_NGF = votes_NGF - same_NGPF[:, :, place]
        right.append(_is_right(left_NGF, reach - 1, same_NGPF[:, :, farthest], k, vote).sum(axis=-1))
    return np.stack(right, axis=-1).astype(np.float64)


def _is_right(votes: NDArray[np.int16], number: int, farthest: Bools, k: int, vote: Vote) -> Bools:
    """Whether so many votes of a number for the language's own value decide for it."""
    if vote is Vote.PAPER:
        return np.asarray(2 * votes > k)
    if number == 0:
        return np.zeros(votes.shape, np.bool_)
    return np.asarray((2 * votes > number) | ((2 * votes == number) & ~farthest))
