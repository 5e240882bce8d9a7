"""The data of the language map in the HTML report.

`manyglot evaluate` stores the pairwise similarities of the languages, so that the report does not need the model.
Families come from URIEL; if it is not installed, languages are colored by script only.

Shape letters: L languages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manyglot.corpus.languages import english_language_name
from manyglot.errors import ManyglotError
from manyglot.probing.knn import Floats, cosine_similarities
from manyglot.probing.language_distance_analysis import (
    average_linkage,
    classical_mds,
    language_families,
    leaf_order,
    script_names,
)
from manyglot.probing.uriel import UrielDatabase, load_uriel

DIGITS = 4
"""Decimals of similarities and coordinates."""
MIN_MAP_LANGUAGES = 3
"""Minimum number of languages for a map."""


def lower_triangle_similarities(representation: NDArray[Any]) -> list[float] | None:
    """Return the similarities of each language with all before it, flattened; None if any is not finite."""
    similarity_LL = cosine_similarities(representation)
    pairs = similarity_LL[np.tril_indices(len(similarity_LL), -1)]
    return [round(float(value), DIGITS) for value in pairs] if np.isfinite(pairs).all() else None


def representation_map_data(runs: Sequence[tuple[str, Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """Return a map for each representation of the runs, given as its name and facts, which may be without."""
    maps = [
        (name, method, tuple(about["languages"]), similarity_LL)
        for name, about in runs
        for method, pairs in about.get("similarities", {}).items()
        if (similarity_LL := _similarity_matrix(pairs, len(about["languages"]))) is not None
    ]
    facts = {codes: _language_facts(codes) for codes in dict.fromkeys(codes for _, _, codes, _ in maps)}
    return [
        {"run": name, "method": method, "languages": facts[codes], **_map_layout(similarity_LL)}
        for name, method, codes, similarity_LL in maps
    ]


def _similarity_matrix(pairs: Sequence[float] | None, num_languages: int) -> Floats | None:
    """Return the full matrix from pairwise similarities; None if they do not fit the languages or there are too few."""
    if pairs is None or num_languages < MIN_MAP_LANGUAGES or len(pairs) != num_languages * (num_languages - 1) // 2:
        return None
    if not np.isfinite(pairs).all():  # JSON has no such numbers
        return None
    similarity_LL = np.eye(num_languages)
    rows, columns = np.tril_indices(num_languages, -1)
    similarity_LL[rows, columns] = similarity_LL[columns, rows] = pairs
    return similarity_LL


def _language_facts(codes: Sequence[str]) -> list[dict[str, str]]:
    """Return the name, the script and, if URIEL is installed, the family of each language."""
    uriel = _load_uriel_if_installed()
    categories = {"family": language_families(uriel, codes)} if uriel else {}
    categories["script"] = script_names(codes)
    return [
        {"code": code, "name": english_language_name(code)}
        | {category: names[i] for category, names in categories.items()}
        for i, code in enumerate(codes)
    ]


def _load_uriel_if_installed() -> UrielDatabase | None:
    try:
        return load_uriel()
    except ManyglotError:
        return None


def _map_layout(similarity_LL: Floats) -> dict[str, Any]:
    """Return the similarities, the dendrogram with its leaf order, and the 2-D points."""
    distance_LL = np.clip(1 - similarity_LL, 0, None)
    merges = average_linkage(distance_LL)
    point_L2, explained_variance = classical_mds(distance_LL)
    return {
        "similarity": similarity_LL.round(DIGITS).tolist(),
        "leaf_order": leaf_order(merges),
        "merges": [[merge.left, merge.right, round(merge.height, DIGITS)] for merge in merges],
        "points": point_L2.round(DIGITS).tolist(),
        "explained_variance": round(explained_variance, DIGITS),
    }
