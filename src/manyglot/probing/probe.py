"""How well the features of languages are told from representations, with what is told without any model beside it.

The sound protocol lets each language's number of neighbours be chosen by all the others (nested leave-one-out). The
paper's takes the best number afterwards, on the data that it is tested on.

Shape letters: N similarities, L languages, H the one that takes no part, K numbers of neighbours, S sets of features.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from manyglot.errors import SettingsError
from manyglot.probing.neighbours import NEIGHBOURS, Counts, Floats, Order, Vote, count, ranked, similarities
from manyglot.probing.uriel import GROUPS, UNKNOWN, Exclusion, FeatureSet, Uriel, require

if TYPE_CHECKING:
    from manyglot.probing.representations import Representation

WIDTH = 512
"""Of random vectors."""
AT_ONCE = 2**21
"""Predictions for pairs of languages in memory at a time."""


@dataclass(frozen=True)
class ProbeSettings:
    """How to probe."""

    neighbours: tuple[int, ...] = NEIGHBOURS
    vote: Vote = Vote.MAJORITY
    num_random: int = 100
    """Draws of random vectors."""
    num_permutations: int = 200
    """Of the languages, for the p-value."""
    seed: int = 1

    def __post_init__(self) -> None:
        wrong = [k for k in self.neighbours if k < 1 or k % 2 == 0]
        if wrong or not self.neighbours or len(set(self.neighbours)) < len(self.neighbours):
            given = ",".join(map(str, self.neighbours))
            raise SettingsError(f"Numbers of neighbours are odd and different, such as 1,3,5; got '{given}'.")


@dataclass(frozen=True)
class Scores:
    """Accuracies in per cent, for many similarities at once."""

    by_number_NK: Floats
    best_N: Floats
    """With the number chosen by the other languages, or, in the paper's protocol, the maximum."""


@dataclass(frozen=True)
class Score:
    """The accuracies of one representation in a group of features, in per cent."""

    by_number: tuple[float, ...]
    best: float


@dataclass(frozen=True)
class Baselines:
    """What a group's accuracy is without a model."""

    majority: float
    """The most frequent value of each feature."""
    random_mean: Score
    random_std: Score
    family_and_geography: Score


@dataclass(frozen=True)
class GroupResult:
    """One group of features."""

    group: str
    sets: tuple[tuple[str, int], ...]
    """The sources, and how many languages have a feature there."""
    score: Score
    baselines: Baselines
    p_value: float
    """The share of permuted languages for which the accuracy is as high."""


@dataclass(frozen=True)
class ProbeResult:
    """One representation of a model."""

    name: str
    representation: str
    languages: tuple[str, ...]
    groups: tuple[GroupResult, ...]

    def as_json(self) -> dict[str, Any]:
        """For `--json`."""
        return asdict(self)


class Prober:
    """Probes representations of the same languages."""

    def __init__(self, uriel: Uriel, codes: Sequence[str], settings: ProbeSettings | None = None) -> None:
        self.settings = settings or ProbeSettings()
        self.uriel = uriel
        self.all_codes = tuple(codes)
        self.located = require(uriel.locate(codes))
        self.isos = tuple(self.located.iso_of.values())
        found = {group: uriel.feature_sets(self.isos, group) for group in GROUPS}
        self.sets = {group: sets for group, sets in found.items() if sets}
        self._check_enough()
        everywhere = tuple(dict.fromkeys(iso for code in codes if (iso := uriel.iso(code))))  # also without features
        self.known_LD = uriel.family_and_geography(self.isos, everywhere)
        self.baselines = {group: self._baselines(group) for group in self.sets}

    def rows(self, representation: NDArray[Any]) -> NDArray[Any]:
        """The part of a model's representation that belongs to the languages that are probed."""
        return representation[[self.all_codes.index(code) for code in self.located.codes]]

    def probe(self, name: str, kind: str, representation: NDArray[Any]) -> ProbeResult:
        """Probe a representation that has a row for each of the languages, also for those without features."""
        similarity_LL = similarities(self.rows(representation))
        groups = tuple(self._group(group, similarity_LL) for group in self.sets)
        return ProbeResult(name, kind, self.located.codes, groups)

    def scores(self, group: str, order_NLM: Order) -> Scores:
        """The accuracies in a group: over languages and features within a set, then the mean of the sets."""
        step = max(1, AT_ONCE // (order_NLM[0].size * len(self.settings.neighbours)))
        parts = [self._scores(group, order_NLM[i : i + step]) for i in range(0, len(order_NLM), step)]
        return Scores(*(np.concatenate(each) for each in zip(*parts, strict=True)))

    def _scores(self, group: str, order_NLM: Order) -> tuple[Floats, Floats]:
        numbers, vote = self.settings.neighbours, self.settings.vote
        counts = [count(order_NLM, each, numbers, vote, nested=vote is not Vote.PAPER) for each in self.sets[group]]
        by_number_NK = np.mean([each.accuracy() for each in counts], axis=0)
        if vote is Vote.PAPER:
            return by_number_NK, by_number_NK.max(axis=1)
        choice_NL = chosen(counts)
        return by_number_NK, np.mean([each.accuracy_with(choice_NL) for each in counts], axis=0)

    def _group(self, group: str, similarity_LL: Floats) -> GroupResult:
        score = _first(self.scores(group, ranked(similarity_LL[None])))
        every = np.tile(np.arange(len(self.isos)), (self.settings.num_permutations, 1))
        places = np.random.default_rng([self.settings.seed, 1]).permuted(every, axis=1)  # whose representation each has
        permuted = self.scores(group, ranked(similarity_LL[places[:, :, None], places[:, None, :]])).best_N
        as_high = int((permuted >= score.best - 1e-9).sum())
        p_value = (1 + as_high) / (1 + self.settings.num_permutations)
        sets = tuple((each.source, each.num_languages) for each in self.sets[group])
        return GroupResult(group, sets, score, self.baselines[group], p_value)

    def _baselines(self, group: str) -> Baselines:
        rng = np.random.default_rng([self.settings.seed, 0])
        drawn = rng.standard_normal((self.settings.num_random, len(self.isos), WIDTH), np.float32)
        random = self.scores(group, ranked(np.stack([similarities(each) for each in drawn])))
        return Baselines(
            majority=float(np.mean([majority(each) for each in self.sets[group]])),
            random_mean=Score(tuple(random.by_number_NK.mean(axis=0).tolist()), float(random.best_N.mean())),
            random_std=Score(tuple(random.by_number_NK.std(axis=0).tolist()), float(random.best_N.std())),
            family_and_geography=_first(self.scores(group, ranked(similarities(self.known_LD)[None]))),
        )

    def _check_enough(self) -> None:
        """Refuse a number of neighbours that no feature of a group has."""
        most = max(self.settings.neighbours)
        for group in GROUPS:
            there = max((each.num_languages for each in self.sets.get(group, ())), default=0)
            if there < 2:
                continue
            if there < most + 1:
                fewer = [k for k in self.settings.neighbours if k < there] or [k for k in NEIGHBOURS if k < there]
                possible = ",".join(map(str, fewer))
                raise SettingsError(
                    f"{most} neighbours need {most + 1} languages with a feature, and no feature of {group} has more "
                    f"than {there} of these {len(self.isos)}. Give fewer neighbours, such as --neighbours {possible}."
                )
        if not self.sets:
            raise SettingsError(f"No two of the languages {', '.join(self.located.codes)} have a common feature.")


def probe_all(
    uriel: Uriel, representations: Sequence[Representation], settings: ProbeSettings
) -> tuple[list[ProbeResult], dict[str, Exclusion]]:
    """Probe representations; also the languages that are left out, with the reasons."""
    probers = {codes: Prober(uriel, codes, settings) for codes in dict.fromkeys(each.codes for each in representations)}
    results = [probers[each.codes].probe(each.model, each.method, each.values) for each in representations]
    left_out = {code: why for prober in probers.values() for code, why in prober.located.left_out.items()}
    return results, dict(sorted(left_out.items()))


def chosen(counts: Sequence[Counts]) -> Order:
    """For each language the number of neighbours, by its place, that the others choose: the largest good enough one.

    Good enough is what the best leads only by a single language, without which it would not. The best itself would be
    a bad choice: where all numbers are equally good, the one that is right about a language loses that language's vote
    and is not chosen for it, and the result is worse than any number's.
    """
    share_SNHLK = np.stack([each.shares_without() for each in counts])
    there = ~np.isnan(share_SNHLK)
    share_NHLK = np.where(there, share_SNHLK, 0).sum(axis=0) / np.maximum(there.sum(axis=0), 1)
    accuracy_NHK = share_NHLK.sum(axis=2)
    best_NH1 = np.argmax(accuracy_NHK.round(6), axis=2)[:, :, None]
    behind_NHLK = np.take_along_axis(share_NHLK, best_NH1[:, :, :, None], axis=3) - share_NHLK
    enough_NHK = behind_NHLK.sum(axis=2) <= behind_NHLK.max(axis=2) + 1e-6
    return np.asarray(enough_NHK.shape[2] - 1 - np.argmax(enough_NHK[:, :, ::-1], axis=2))


def majority(features: FeatureSet) -> float:
    """The share of values that are their feature's most frequent one, in per cent."""
    known_LF = features.value_LF != UNKNOWN
    known_LF = known_LF & (known_LF.sum(axis=0) > 1)
    ones_F = (known_LF & (features.value_LF == 1)).sum(axis=0)
    return float(100 * np.maximum(ones_F, known_LF.sum(axis=0) - ones_F).sum() / known_LF.sum())


def _first(scores: Scores) -> Score:
    return Score(tuple(scores.by_number_NK[0].tolist()), float(scores.best_N[0]))
