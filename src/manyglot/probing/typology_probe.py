"""Probe how well representations predict the typological features of languages, against baselines without a model.

The default protocol selects each language's k on all other languages (nested leave-one-out). The paper's protocol takes
the best k afterward, on the test data itself.

Shape letters: N rankings, L languages, H the held-out language, K values of k, S feature sets.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from manyglot.errors import SettingsError
from manyglot.probing.knn import (
    DEFAULT_K_VALUES,
    CorrectCounts,
    Floats,
    Indices,
    VotingRule,
    cosine_similarities,
    count_correct_predictions,
    rank_neighbors,
)
from manyglot.probing.uriel import (
    FEATURE_GROUPS,
    UNKNOWN_VALUE,
    BinaryFeatureSet,
    Exclusion,
    UrielDatabase,
    require_two_languages,
)
from manyglot.progress import print_status

if TYPE_CHECKING:
    from manyglot.probing.language_representations import LanguageRepresentation

RANDOM_VECTOR_WIDTH = 512
"""Dimension of the vectors of the random baseline."""
MAX_PREDICTIONS_IN_MEMORY = 2**21
"""Limit on the number of predictions for pairs of languages held in memory at once."""


@dataclass(frozen=True)
class ProbeSettings:
    """Settings of the probe."""

    k_values: tuple[int, ...] | None = None
    """Numbers of nearest neighbors; None selects those of 1, 3, 5, 7 and 9 for which there are enough languages."""
    voting_rule: VotingRule = VotingRule.MAJORITY
    num_random_baselines: int = 100
    """Number of random baselines to average."""
    num_permutations: int = 200
    """Number of permutations of the languages for the p-value."""
    seed: int = 1

    def __post_init__(self) -> None:
        if self.k_values is None:
            return
        invalid = [k for k in self.k_values if k < 1 or k % 2 == 0]
        if invalid or not self.k_values or len(set(self.k_values)) < len(self.k_values):
            given = ",".join(map(str, self.k_values))
            raise SettingsError(f"Values of k must be odd and distinct, such as 1,3,5; got '{given}'.")


@dataclass(frozen=True)
class BatchedKnnAccuracy:
    """Accuracies of several rankings, in percent."""

    by_k_NK: Floats
    at_selected_k_N: Floats
    """With the k selected on the other languages, or the maximum over k in the paper's protocol."""


@dataclass(frozen=True)
class FeatureGroupKnnAccuracy:
    """Accuracies of one representation in one feature group, in percent."""

    by_k: tuple[float, ...]
    at_selected_k: float
    """With the k selected on the other languages, or the maximum over k in the paper's protocol."""


@dataclass(frozen=True)
class ProbeBaselines:
    """Accuracies in a feature group without a model, in percent."""

    majority_class: float
    """Predicting the most frequent value of each feature."""
    random_mean: FeatureGroupKnnAccuracy
    random_std: FeatureGroupKnnAccuracy
    family_and_geography: FeatureGroupKnnAccuracy


@dataclass(frozen=True)
class FeatureGroupResult:
    """The result in one feature group."""

    group: str
    languages_by_source: tuple[tuple[str, int], ...]
    """Each source, with the number of languages that have its most widely known feature."""
    knn_accuracy: FeatureGroupKnnAccuracy
    baselines: ProbeBaselines
    p_value: float
    """Share of permutations of the languages whose accuracy is at least as high."""


@dataclass(frozen=True)
class ProbeResult:
    """The results of one representation of a model."""

    model_name: str
    method: str
    """The guidance method that the representation belongs to."""
    languages: tuple[str, ...]
    k_values: tuple[int, ...]
    group_results: tuple[FeatureGroupResult, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for `--json`."""
        return asdict(self)


class TypologyProber:
    """Probes representations of the same languages.

    The matched languages, feature sets and baselines are computed once, for all representations.
    """

    def __init__(self, uriel: UrielDatabase, codes: Sequence[str], settings: ProbeSettings | None = None) -> None:
        self.settings = settings or ProbeSettings()
        self.uriel = uriel
        self.model_codes = tuple(codes)
        self.matched = require_two_languages(uriel.match_languages(codes))
        self.isos = tuple(self.matched.iso_by_code.values())
        all_sets = {group: uriel.feature_set_per_source(self.isos, group) for group in FEATURE_GROUPS}
        self.sets_by_group = {group: sets for group, sets in all_sets.items() if sets}
        self.k_values = self._usable_k_values() if self.settings.k_values is None else self.settings.k_values
        self._check_enough_languages()
        known_isos = tuple(dict.fromkeys(iso for code in codes if (iso := uriel.find_iso(code))))
        self.family_geography_LD = uriel.family_and_geography_vectors(self.isos, known_isos)
        self.baselines = {group: self._baselines(group) for group in self.sets_by_group}

    def select_matched_languages(self, representation: NDArray[Any]) -> NDArray[Any]:
        """Return the rows of a model's representation that belong to the probed languages."""
        return representation[[self.model_codes.index(code) for code in self.matched.codes]]

    def probe(self, model_name: str, method: str, representation: NDArray[Any]) -> ProbeResult:
        """Probe a representation with one row for each language of the model, including those without features."""
        similarity_LL = cosine_similarities(self.select_matched_languages(representation))
        group_results = tuple(self._probe_group(group, similarity_LL) for group in self.sets_by_group)
        return ProbeResult(model_name, method, self.matched.codes, self.k_values, group_results)

    def accuracies_of_rankings(self, group: str, ranking_NLM: Indices) -> BatchedKnnAccuracy:
        """Return the accuracies in a group: over languages and features within a set, then averaged over sets."""
        chunk_size = max(1, MAX_PREDICTIONS_IN_MEMORY // (ranking_NLM[0].size * len(self.k_values)))
        chunks = [
            self._accuracies_of_chunk(group, ranking_NLM[start : start + chunk_size])
            for start in range(0, len(ranking_NLM), chunk_size)
        ]
        return BatchedKnnAccuracy(*(np.concatenate(arrays) for arrays in zip(*chunks, strict=True)))

    def _accuracies_of_chunk(self, group: str, ranking_NLM: Indices) -> tuple[Floats, Floats]:
        k_values, voting_rule = self.k_values, self.settings.voting_rule
        nested = voting_rule is not VotingRule.PAPER
        counts = [
            count_correct_predictions(ranking_NLM, feature_set, k_values, voting_rule, nested)
            for feature_set in self.sets_by_group[group]
        ]
        by_k_NK = np.mean([count.accuracy_by_k() for count in counts], axis=0)
        if voting_rule is VotingRule.PAPER:
            return by_k_NK, by_k_NK.max(axis=1)
        k_index_NL = select_k_index_per_language(counts)
        return by_k_NK, np.mean([count.accuracy_with_own_k(k_index_NL) for count in counts], axis=0)

    def _probe_group(self, group: str, similarity_LL: Floats) -> FeatureGroupResult:
        knn_accuracy = _first_accuracy(self.accuracies_of_rankings(group, rank_neighbors(similarity_LL[None])))
        identity_NL = np.tile(np.arange(len(self.isos)), (self.settings.num_permutations, 1))
        row_NL = np.random.default_rng([self.settings.seed, 1]).permuted(identity_NL, axis=1)
        permuted_NLL = similarity_LL[row_NL[:, :, None], row_NL[:, None, :]]
        permuted_N = self.accuracies_of_rankings(group, rank_neighbors(permuted_NLL)).at_selected_k_N
        num_as_high = int((permuted_N >= knn_accuracy.at_selected_k - 1e-9).sum())
        p_value = (1 + num_as_high) / (1 + self.settings.num_permutations)
        languages_by_source = tuple(
            (s.source, s.num_languages_of_best_covered_feature) for s in self.sets_by_group[group]
        )
        return FeatureGroupResult(group, languages_by_source, knn_accuracy, self.baselines[group], p_value)

    def _baselines(self, group: str) -> ProbeBaselines:
        rng = np.random.default_rng([self.settings.seed, 0])
        shape = (self.settings.num_random_baselines, len(self.isos), RANDOM_VECTOR_WIDTH)
        random_NLD = rng.standard_normal(shape, np.float32)
        similarity_NLL = np.stack([cosine_similarities(random_LD) for random_LD in random_NLD])
        random = self.accuracies_of_rankings(group, rank_neighbors(similarity_NLL))
        family_geography_LL = cosine_similarities(self.family_geography_LD)
        majority_accuracies = [majority_class_accuracy(feature_set) for feature_set in self.sets_by_group[group]]
        return ProbeBaselines(
            majority_class=float(np.mean(majority_accuracies)),
            random_mean=FeatureGroupKnnAccuracy(
                tuple(random.by_k_NK.mean(axis=0).tolist()), float(random.at_selected_k_N.mean())
            ),
            random_std=FeatureGroupKnnAccuracy(
                tuple(random.by_k_NK.std(axis=0).tolist()), float(random.at_selected_k_N.std())
            ),
            family_and_geography=_first_accuracy(
                self.accuracies_of_rankings(group, rank_neighbors(family_geography_LL[None]))
            ),
        )

    def _num_languages_by_group(self) -> dict[str, int]:
        """Return the number of languages that share a feature, for each feature group."""
        return {
            group: max(feature_set.num_languages_of_best_covered_feature for feature_set in sets)
            for group, sets in self.sets_by_group.items()
        }

    def _usable_k_values(self) -> tuple[int, ...]:
        """Return the default values of k below the number of languages in every feature group."""
        num_languages = min(self._num_languages_by_group().values(), default=max(DEFAULT_K_VALUES) + 1)
        return tuple(k for k in DEFAULT_K_VALUES if k < num_languages)

    def _check_enough_languages(self) -> None:
        """Raise if the largest k exceeds the number of languages available for a feature group."""
        max_k = max(self.k_values)
        for group, num_languages in self._num_languages_by_group().items():
            if num_languages < max_k + 1:
                smaller = [k for k in self.k_values if k < num_languages]
                possible = smaller or [k for k in DEFAULT_K_VALUES if k < num_languages]
                raise SettingsError(
                    f"k = {max_k} needs {max_k + 1} languages that share a feature, but no {group} feature is known "
                    f"for more than {num_languages} of these {len(self.isos)}. "
                    f"Choose smaller values, such as --k-values {','.join(map(str, possible))}."
                )
        if not self.sets_by_group:
            raise SettingsError(f"No two of the languages {', '.join(self.matched.codes)} share a feature in URIEL.")


def probe_representations(
    uriel: UrielDatabase, representations: Sequence[LanguageRepresentation], settings: ProbeSettings
) -> tuple[list[ProbeResult], dict[str, Exclusion]]:
    """Probe representations; return the results and the excluded languages of all models.

    Without `settings.k_values`, all models use the values of k that suit the model with the fewest languages.
    """
    probers = {
        codes: TypologyProber(uriel, codes, settings)
        for codes in dict.fromkeys(representation.codes for representation in representations)
    }
    if settings.k_values is None:
        k_values = min((prober.k_values for prober in probers.values()), key=len)
        for codes, prober in probers.items():
            if prober.k_values != k_values:
                probers[codes] = TypologyProber(uriel, codes, replace(settings, k_values=k_values))
        print_lowered_k_values(k_values)
    results = [probers[r.codes].probe(r.model_name, r.method, r.values) for r in representations]
    return results, merge_exclusions(probers.values())


def print_lowered_k_values(k_values: Sequence[int]) -> None:
    """Print the values of k if there are too few languages for all default values."""
    if tuple(k_values) != DEFAULT_K_VALUES:
        used, wanted = (", ".join(map(str, values)) for values in (k_values, DEFAULT_K_VALUES))
        print_status(f"Too few languages share a feature for k = {wanted}. Using k = {used}.")


def merge_exclusions(probers: Iterable[TypologyProber]) -> dict[str, Exclusion]:
    """Return the excluded languages of all probers by language code, sorted."""
    exclusions = {code: exclusion for prober in probers for code, exclusion in prober.matched.exclusions.items()}
    return dict(sorted(exclusions.items()))


def select_k_index_per_language(counts: Sequence[CorrectCounts]) -> Indices:
    """Return the index (N, L) of each language's k, selected on the other languages: the largest that is good enough.

    A k is good enough if the best k beats it by no more than the contribution of a single language. Taking the best k
    itself would be biased: where all k are equally good, the k that is correct for a language loses that language's
    vote and is not selected for it, so the result is worse than with any fixed k.
    """
    share_SNHLK = np.stack([count.accuracy_contributions_with_held_out_language() for count in counts])
    is_known = ~np.isnan(share_SNHLK)
    share_NHLK = np.where(is_known, share_SNHLK, 0).sum(axis=0) / np.maximum(is_known.sum(axis=0), 1)
    accuracy_NHK = share_NHLK.sum(axis=2)
    best_NH1 = np.argmax(accuracy_NHK.round(6), axis=2)[:, :, None]
    deficit_NHLK = np.take_along_axis(share_NHLK, best_NH1[:, :, :, None], axis=3) - share_NHLK
    good_enough_NHK = deficit_NHLK.sum(axis=2) <= deficit_NHLK.max(axis=2) + 1e-6
    return np.asarray(good_enough_NHK.shape[2] - 1 - np.argmax(good_enough_NHK[:, :, ::-1], axis=2))


def majority_class_accuracy(features: BinaryFeatureSet) -> float:
    """Return the accuracy, in percent, of predicting the most frequent value of each feature."""
    known_LF = features.value_LF != UNKNOWN_VALUE
    known_LF = known_LF & (known_LF.sum(axis=0) > 1)
    ones_F = (known_LF & (features.value_LF == 1)).sum(axis=0)
    return float(100 * np.maximum(ones_F, known_LF.sum(axis=0) - ones_F).sum() / known_LF.sum())


def _first_accuracy(accuracies: BatchedKnnAccuracy) -> FeatureGroupKnnAccuracy:
    return FeatureGroupKnnAccuracy(tuple(accuracies.by_k_NK[0].tolist()), float(accuracies.at_selected_k_N[0]))
