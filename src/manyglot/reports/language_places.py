"""Which languages are alike to a model, for the report: what is kept of it, and what the page draws of that.

Beside an evaluation the similarities of each two languages are kept, so that the page needs no model. Families are
those of URIEL; where that is not installed, languages are coloured by their scripts alone.

Shape letters: L languages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manyglot.corpus.languages import name_of
from manyglot.errors import ManyglotError
from manyglot.probing.language_map import families, leaves, plane, scripts, tree
from manyglot.probing.neighbours import Floats, similarities
from manyglot.probing.uriel import Uriel, read_uriel

DIGITS = 4
"""Of a similarity and of a place."""
FEWEST = 3
"""Languages that make a map."""


def pairs_of(representation: NDArray[Any]) -> list[float] | None:
    """The similarities of each language with those before it, or nothing if they are not numbers."""
    similarity_LL = similarities(representation)
    pairs = similarity_LL[np.tril_indices(len(similarity_LL), -1)]
    return [round(float(value), DIGITS) for value in pairs] if np.isfinite(pairs).all() else None


def language_places(runs: Sequence[tuple[str, Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """A map of each representation of runs, given with what is known of their models; those of old runs have none."""
    known = [
        (name, method, tuple(about["languages"]), similarity_LL)
        for name, about in runs
        for method, pairs in about.get("similarities", {}).items()
        if (similarity_LL := _square(pairs, len(about["languages"]))) is not None
    ]
    facts = {codes: _facts(codes) for codes in dict.fromkeys(codes for _, _, codes, _ in known)}
    return [
        {"run": name, "method": method, "languages": facts[codes], **_place(similarity_LL)}
        for name, method, codes, similarity_LL in known
    ]


def _square(pairs: Sequence[float] | None, num_languages: int) -> Floats | None:
    """All similarities from those of the pairs; nothing where these are of other languages, or of too few."""
    if pairs is None or num_languages < FEWEST or len(pairs) != num_languages * (num_languages - 1) // 2:
        return None
    if not np.isfinite(pairs).all():  # of which a page could not be read
        return None
    similarity_LL = np.eye(num_languages)
    rows, columns = np.tril_indices(num_languages, -1)
    similarity_LL[rows, columns] = similarity_LL[columns, rows] = pairs
    return similarity_LL


def _facts(codes: Sequence[str]) -> list[dict[str, str]]:
    """The name, the script and, if URIEL is there, the family of each language."""
    uriel = _uriel()
    found = {"family": families(uriel, codes)} if uriel else {}
    found["script"] = scripts(codes)
    return [
        {"code": code, "name": name_of(code)} | {by: names[i] for by, names in found.items()}
        for i, code in enumerate(codes)
    ]


def _uriel() -> Uriel | None:
    try:
        return read_uriel()
    except ManyglotError:
        return None


def _place(similarity_LL: Floats) -> dict[str, Any]:
    """The tree, the order of its leaves and the plane, with the similarities row by row."""
    distance_LL = np.clip(1 - similarity_LL, 0, None)
    joins = tree(distance_LL)
    place_L2, spread = plane(distance_LL)
    return {
        "similarity": similarity_LL.round(DIGITS).tolist(),
        "order": leaves(joins),
        "joins": [[join.left, join.right, round(join.height, DIGITS)] for join in joins],
        "plane": place_L2.round(DIGITS).tolist(),
        "spread": round(spread, DIGITS),
    }
