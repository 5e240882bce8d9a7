"""Distances between languages in a model: clustering, 2-D scaling, and Mantel tests against URIEL distances.

Shape letters: L languages, N permutations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from babel import Locale
from numpy.typing import NDArray

from manyglot.corpus.language_codes import parse_language_code
from manyglot.probing.knn import Floats, cosine_similarities
from manyglot.probing.uriel import UNKNOWN_VALUE, UrielDatabase, to_unit_length

if TYPE_CHECKING:
    from manyglot.probing.language_representations import LanguageRepresentation

MIN_SHARED_FEATURES = 10
"""Minimum number of features known for both languages; below it, they have no syntactic distance."""
HAN_SCRIPT_NAMES = {"Hans": "Han, simplified", "Hant": "Han, traditional"}
"""Script names that are clearer than those of CLDR."""


@dataclass(frozen=True)
class ClusterMerge:
    """One merge of a hierarchical clustering.

    Clusters are numbered as in SciPy: the languages first, then the merges in their order.
    """

    left: int
    right: int
    height: float


@dataclass(frozen=True)
class MantelResult:
    """The correlation of model distances with one kind of URIEL distances between the same languages."""

    distance_kind: str
    """genetic, geographic or syntactic."""
    correlation: float
    p_value: float
    """Share of permutations of the languages whose correlation is at least as high."""
    num_languages: int

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for `--json`."""
        return asdict(self)


def cosine_distances(representation: NDArray[Any]) -> Floats:
    """Return one minus the cosine similarity, clipped at 0; exactly 0 on the diagonal."""
    distance_LL = 1 - cosine_similarities(representation)
    np.fill_diagonal(distance_LL, 0)
    return np.clip(distance_LL, 0, None)


def average_linkage(distance_LL: Floats) -> list[ClusterMerge]:
    """Cluster the languages by average linkage (UPGMA); return the merges, nearest clusters first."""
    distance = distance_LL.astype(np.float64)
    np.fill_diagonal(distance, np.inf)
    cluster, size = list(range(len(distance))), [1] * len(distance)
    merges = []
    for step in range(len(distance) - 1):
        i, j = sorted(int(index) for index in np.unravel_index(np.argmin(distance), distance.shape))
        merges.append(ClusterMerge(cluster[i], cluster[j], float(distance[i, j])))
        merged = (size[i] * distance[i] + size[j] * distance[j]) / (size[i] + size[j])
        merged[[i, j]] = np.inf
        distance[i], distance[:, i] = merged, merged
        distance[j], distance[:, j] = np.inf, np.inf
        cluster[i], size[i] = len(distance_LL) + step, size[i] + size[j]
    return merges


def leaf_order(merges: Sequence[ClusterMerge]) -> list[int]:
    """Return the languages in an order in which no branches of the dendrogram cross."""
    clusters = [[i] for i in range(len(merges) + 1)]
    for merge in merges:
        clusters.append(clusters[merge.left] + clusters[merge.right])
    return clusters[-1]


def classical_mds(distance_LL: Floats) -> tuple[Floats, float]:
    """Return 2-D coordinates by classical multidimensional scaling (MDS) and the share of variance they explain.

    The share is between 0 and 1; where it is low, distances in the plane say little.
    """
    center_LL = np.eye(len(distance_LL)) - 1 / len(distance_LL)
    values, vectors_LL = np.linalg.eigh(-center_LL @ distance_LL**2 @ center_LL / 2)
    point_L2 = vectors_LL[:, [-1, -2]] * np.sqrt(np.clip(values[[-1, -2]], 0, None))
    sign_2 = np.sign(point_L2[np.abs(point_L2).argmax(axis=0), [0, 1]])  # the same signs on every machine
    variance = np.clip(values, 0, None)
    explained = float(variance[-2:].sum() / (variance.sum() or 1))
    return np.asarray(point_L2 * np.where(sign_2 == 0, 1, sign_2)), explained


def uriel_distances(uriel: UrielDatabase, isos: Sequence[str]) -> dict[str, Floats]:
    """Return genetic, geographic and syntactic distances from URIEL by kind; nan where URIEL lacks the data."""
    family_LD = to_unit_length(uriel.family_vectors(isos))
    genetic_LL = 1 - family_LD @ family_LD.T
    has_no_family = ~family_LD.any(axis=1)
    genetic_LL[has_no_family], genetic_LL[:, has_no_family] = np.nan, np.nan
    geography_LD = uriel.geography_vectors(isos)
    geographic_LL = np.linalg.norm(geography_LD[:, None] - geography_LD[None], axis=2)
    value_LF = uriel.merge_sources_by_majority(isos, "syntax")
    ones, zeros = (value_LF == 1).astype(np.float64), (value_LF == 0).astype(np.float64)
    known = (value_LF != UNKNOWN_VALUE).astype(np.float64)
    shared_LL = known @ known.T
    differ_LL = ones @ zeros.T + zeros @ ones.T
    syntactic_LL = np.where(shared_LL >= MIN_SHARED_FEATURES, differ_LL / np.maximum(shared_LL, 1), np.nan)
    return {"genetic": genetic_LL, "geographic": geographic_LL, "syntactic": syntactic_LL}


def mantel_test(
    distance_kind: str, model_LL: Floats, other_LL: Floats, num_permutations: int, seed: int = 1
) -> MantelResult | None:
    """Run a Mantel test: is the correlation of two distance matrices higher than with permuted languages?

    Languages without a distance to most others are dropped first, then the remaining pairs without a distance. Return
    None if fewer than four languages remain.
    """
    off_diagonal = ~np.eye(len(other_LL), dtype=np.bool_)
    usable = np.flatnonzero((~np.isnan(other_LL) & off_diagonal).sum(axis=1) > (len(other_LL) - 1) / 2)
    if len(usable) < 4:
        return None
    model, other = model_LL[np.ix_(usable, usable)], other_LL[np.ix_(usable, usable)]
    rows, columns = np.triu_indices(len(usable), 1)
    is_known = ~np.isnan(other[rows, columns])
    rows, columns = rows[is_known], columns[is_known]
    permutation_NL = np.tile(np.arange(len(usable)), (num_permutations + 1, 1))  # the first stays the identity
    permutation_NL[1:] = np.random.default_rng([seed, 2]).permuted(permutation_NL[1:], axis=1)
    model_NP = model[permutation_NL[:, rows], permutation_NL[:, columns]]
    centered_NP, other_P = model_NP - model_NP.mean(axis=1, keepdims=True), other[rows, columns]
    other_P = other_P - other_P.mean()
    length_N = np.linalg.norm(centered_NP, axis=1) * np.linalg.norm(other_P)
    correlation_N = centered_NP @ other_P / np.where(length_N > 0, length_N, 1)
    num_as_high = int((correlation_N[1:] >= correlation_N[0] - 1e-12).sum())
    p_value = (1 + num_as_high) / (1 + num_permutations)
    return MantelResult(distance_kind, float(correlation_N[0]), p_value, len(usable))


def mantel_tests_with_uriel(
    uriel: UrielDatabase, representation: LanguageRepresentation, num_permutations: int, seed: int = 1
) -> list[MantelResult]:
    """Test how a model's distances correlate with URIEL's, over the languages that URIEL has features for."""
    matched = uriel.match_languages(representation.codes)
    rows = [representation.codes.index(code) for code in matched.codes]
    model_LL = cosine_distances(representation.values[rows])
    distances = uriel_distances(uriel, list(matched.iso_by_code.values()))
    results = [mantel_test(kind, model_LL, other_LL, num_permutations, seed) for kind, other_LL in distances.items()]
    return [result for result in results if result is not None]


def language_families(uriel: UrielDatabase, codes: Sequence[str]) -> list[str]:
    """Return the largest family of each language; an empty string where URIEL has none, as for isolates."""
    return uriel.largest_family_names([uriel.find_iso(code) or "" for code in codes])


def script_names(codes: Sequence[str]) -> list[str]:
    """Return the English name of each language's usual script; an empty string where it is unknown."""
    names = dict(Locale("en").scripts) | HAN_SCRIPT_NAMES
    scripts = [parse_language_code(code).with_likely_subtags().script for code in codes]
    return [names.get(script, script) for script in scripts]
