"""Predict the features that URIEL lacks for a language from its nearest neighbors in a model.

Shape letters: L languages, F features.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from manyglot.corpus.languages import Languages
from manyglot.probing.knn import (
    Floats,
    Indices,
    VotingRule,
    cosine_similarities,
    count_correct_predictions,
    rank_neighbors,
)
from manyglot.probing.language_representations import LanguageRepresentation
from manyglot.probing.uriel import FEATURE_GROUPS, UNKNOWN_VALUE, BinaryFeatureSet, UrielDatabase, require_two_languages


@dataclass(frozen=True)
class PredictedFeature:
    """The predicted value of a feature that no URIEL source has for a language."""

    group: str
    feature: str
    value: int
    neighbor_agreement: float
    """Share of the neighbors that have this value, from 0 to 1."""
    feature_accuracy: float | None
    """Leave-one-out accuracy of this feature over the other languages, in percent, with the same k."""
    neighbor_values: tuple[tuple[str, int], ...]
    """Language code and feature value of each neighbor, nearest first."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for `--json`."""
        neighbors = [{"language": code, "value": value} for code, value in self.neighbor_values]
        return asdict(self) | {"neighbor_values": neighbors}


def predict_missing_features(
    uriel: UrielDatabase, representation: LanguageRepresentation, language: str, k_values: Sequence[int]
) -> tuple[str, list[PredictedFeature]]:
    """Return the code of a language of the model and its predicted missing features.

    URIEL need not know the language at all. The k with the best accuracy on the other languages is used. The sources of
    a feature group are merged by majority; where they tie, a language has no value.
    """
    code = Languages(representation.codes).find_code(language)
    own = uriel.find_iso(code)
    different_codes = [other for other in representation.codes if own is None or uriel.find_iso(other) != own]
    matched = require_two_languages(uriel.match_languages(different_codes))
    others = [other for other in matched.codes if other != code]
    rows = [representation.codes.index(row_code) for row_code in (code, *others)]
    similarity_LL = cosine_similarities(representation.values[rows])
    predictions: list[PredictedFeature] = []
    for group in FEATURE_GROUPS:
        isos = [matched.iso_by_code[other] for other in others]
        if sets := uriel.feature_set_per_source(isos, group):
            features = BinaryFeatureSet(
                group, "all", sets[0].feature_names, uriel.merge_sources_by_majority(isos, group)
            )
            missing = uriel.missing_feature_indices(own, group)
            predictions += _predict_group(features, missing, similarity_LL, others, k_values)
    return code, predictions


def _predict_group(
    features: BinaryFeatureSet, missing: Indices, similarity_LL: Floats, others: Sequence[str], k_values: Sequence[int]
) -> list[PredictedFeature]:
    ranking_NLM = rank_neighbors(similarity_LL[None, 1:, 1:])
    counts = count_correct_predictions(ranking_NLM, features, k_values, VotingRule.MAJORITY, nested=False)
    k = k_values[int(np.argmax(counts.accuracy_by_k()[0].round(9)))]
    nearest_L = np.argsort(-similarity_LL[0, 1:], kind="stable")
    predictions = []
    for feature in missing:
        column_L = features.value_LF[:, feature]
        near = [int(i) for i in nearest_L if column_L[i] != UNKNOWN_VALUE][:k]
        if not near:
            continue
        votes = int(column_L[near].sum())
        value = int(2 * votes > len(near) or (2 * votes == len(near) and column_L[near[-1]] == 0))
        agree = votes if value else len(near) - votes
        name = features.feature_names[feature]
        alone = BinaryFeatureSet(features.group, features.source, (name,), column_L[:, None])
        checked = count_correct_predictions(ranking_NLM, alone, (k,), VotingRule.MAJORITY, nested=False)
        accuracy = float(checked.accuracy_by_k()[0, 0]) if checked.num_predictions_L.any() else None
        neighbor_values = tuple((others[i], int(column_L[i])) for i in near)
        predictions.append(PredictedFeature(features.group, name, value, agree / len(near), accuracy, neighbor_values))
    return predictions
