"""How languages lie to each other in a model: a tree, a plane, and whether that is how they lie in the world.

Shape letters: L languages, N permutations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from babel import Locale
from numpy.typing import NDArray

from manyglot.corpus.lookup import read_code
from manyglot.probing.neighbours import Floats, similarities
from manyglot.probing.uriel import UNKNOWN, Uriel, unit

if TYPE_CHECKING:
    from manyglot.probing.representations import Representation

FEWEST_SHARED = 10
"""Features that two languages must share to have a syntactic distance."""
HAN = {"Hans": "Han, simplified", "Hant": "Han, traditional"}
"""Scripts whose names in CLDR say less by themselves."""


@dataclass(frozen=True)
class Join:
    """Two branches of a tree that become one; leaves are numbered first, then the joins in their order."""

    left: int
    right: int
    height: float


@dataclass(frozen=True)
class Mantel:
    """The correlation of two kinds of distances between the same languages."""

    kind: str
    correlation: float
    p_value: float
    """The share of permutations of the languages with a correlation as high."""
    num_languages: int

    def as_json(self) -> dict[str, Any]:
        """For `--json`."""
        return asdict(self)


def distances(representation: NDArray[Any]) -> Floats:
    """One less the similarity: 0 between a language and itself."""
    distance_LL = 1 - similarities(representation)
    np.fill_diagonal(distance_LL, 0)
    return np.clip(distance_LL, 0, None)


def tree(distance_LL: Floats) -> list[Join]:
    """Join the nearest two branches again and again; those of several languages are as far as these are on average."""
    away = distance_LL.astype(np.float64)
    np.fill_diagonal(away, np.inf)
    number, size = list(range(len(away))), [1] * len(away)
    joins = []
    for step in range(len(away) - 1):
        i, j = sorted(int(place) for place in np.unravel_index(np.argmin(away), away.shape))
        joins.append(Join(number[i], number[j], float(away[i, j])))
        merged = (size[i] * away[i] + size[j] * away[j]) / (size[i] + size[j])
        merged[[i, j]] = np.inf
        away[i], away[:, i] = merged, merged
        away[j], away[:, j] = np.inf, np.inf
        number[i], size[i] = len(distance_LL) + step, size[i] + size[j]
    return joins


def leaves(joins: Sequence[Join]) -> list[int]:
    """The languages in an order in which no branches cross."""
    branches = [[i] for i in range(len(joins) + 1)]
    for join in joins:
        branches.append(branches[join.left] + branches[join.right])
    return branches[-1]


def plane(distance_LL: Floats) -> tuple[Floats, float]:
    """Places in two dimensions whose distances are like those given (classical multidimensional scaling).

    Also how much of their spread these two dimensions have, from 0 to 1: where it is little, the plane says little.
    """
    centre_LL = np.eye(len(distance_LL)) - 1 / len(distance_LL)
    values, vectors_LL = np.linalg.eigh(-centre_LL @ distance_LL**2 @ centre_LL / 2)
    place_L2 = vectors_LL[:, [-1, -2]] * np.sqrt(np.clip(values[[-1, -2]], 0, None))
    sign_2 = np.sign(place_L2[np.abs(place_L2).argmax(axis=0), [0, 1]])  # the same on every machine
    spread = np.clip(values, 0, None)
    return np.asarray(place_L2 * np.where(sign_2 == 0, 1, sign_2)), float(spread[-2:].sum() / (spread.sum() or 1))


def world_distances(uriel: Uriel, isos: Sequence[str]) -> dict[str, Floats]:
    """Genetic, geographic and syntactic distances from URIEL; nan where it does not have what is needed."""
    family_LD = unit(uriel.families(isos))
    genetic_LL = 1 - family_LD @ family_LD.T
    without = ~family_LD.any(axis=1)
    genetic_LL[without], genetic_LL[:, without] = np.nan, np.nan
    place_LD = uriel.places(isos)
    geographic_LL = np.linalg.norm(place_LD[:, None] - place_LD[None], axis=2)
    value_LF = uriel.together(isos, "syntax")
    ones, zeros = (value_LF == 1).astype(np.float64), (value_LF == 0).astype(np.float64)
    known = (value_LF != UNKNOWN).astype(np.float64)
    shared_LL = known @ known.T
    differ_LL = ones @ zeros.T + zeros @ ones.T
    syntactic_LL = np.where(shared_LL >= FEWEST_SHARED, differ_LL / np.maximum(shared_LL, 1), np.nan)
    return {"genetic": genetic_LL, "geographic": geographic_LL, "syntactic": syntactic_LL}


def mantel(kind: str, learned_LL: Floats, other_LL: Floats, permutations: int, seed: int = 1) -> Mantel | None:
    """The Mantel test: is the correlation higher than when the languages are permuted?

    Languages that have no distance to most others are left out, and then pairs without one. Nothing is told of fewer
    than four languages.
    """
    off = ~np.eye(len(other_LL), dtype=np.bool_)
    kept = np.flatnonzero((~np.isnan(other_LL) & off).sum(axis=1) > (len(other_LL) - 1) / 2)
    if len(kept) < 4:
        return None
    learned, other = learned_LL[np.ix_(kept, kept)], other_LL[np.ix_(kept, kept)]
    rows, columns = np.triu_indices(len(kept), 1)
    there = ~np.isnan(other[rows, columns])
    rows, columns = rows[there], columns[there]
    every = np.tile(np.arange(len(kept)), (permutations + 1, 1))
    every[1:] = np.random.default_rng([seed, 2]).permuted(every[1:], axis=1)
    learned_NP = learned[every[:, rows], every[:, columns]]
    centred_NP, fixed_P = learned_NP - learned_NP.mean(axis=1, keepdims=True), other[rows, columns]
    fixed_P = fixed_P - fixed_P.mean()
    length_N = np.linalg.norm(centred_NP, axis=1) * np.linalg.norm(fixed_P)
    found_N = centred_NP @ fixed_P / np.where(length_N > 0, length_N, 1)
    p_value = (1 + int((found_N[1:] >= found_N[0] - 1e-12).sum())) / (1 + permutations)
    return Mantel(kind, float(found_N[0]), p_value, len(kept))


def correlations(uriel: Uriel, representation: Representation, permutations: int, seed: int = 1) -> list[Mantel]:
    """How the distances in a model go with those in the world, over the languages with features."""
    located = uriel.locate(representation.codes)
    rows = [representation.codes.index(code) for code in located.codes]
    learned_LL = distances(representation.values[rows])
    world = world_distances(uriel, list(located.iso_of.values()))
    found = [mantel(kind, learned_LL, other_LL, permutations, seed) for kind, other_LL in world.items()]
    return [each for each in found if each is not None]


def families(uriel: Uriel, codes: Sequence[str]) -> list[str]:
    """The family of each language; nothing where it is not known, as of isolates."""
    return uriel.largest_family([uriel.iso(code) or "" for code in codes])


def scripts(codes: Sequence[str]) -> list[str]:
    """The script that each language is mostly written in, in English; nothing where it is not known."""
    names = dict(Locale("en").scripts) | HAN
    found = [read_code(code).complete().script for code in codes]
    return [names.get(script, script) for script in found]
