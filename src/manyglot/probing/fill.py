"""Features that URIEL does not have of a language, told from its neighbours in a model.

Shape letters: L languages, F features.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from manyglot.corpus.languages import Languages
from manyglot.probing.neighbours import Floats, Order, Vote, count, ranked, similarities
from manyglot.probing.representations import Representation
from manyglot.probing.uriel import GROUPS, UNKNOWN, FeatureSet, Uriel, require


@dataclass(frozen=True)
class Filled:
    """A feature of a language that no source of its group has."""

    group: str
    feature: str
    value: int
    confidence: float
    """The share of the neighbours that have this value."""
    accuracy: float | None
    """How often the same number of neighbours is right about this feature in the other languages, in per cent."""
    neighbours: tuple[tuple[str, int], ...]
    """The nearest first, with their values."""

    def as_json(self) -> dict[str, Any]:
        """For `--json`."""
        return asdict(self) | {"neighbours": [{"language": code, "value": value} for code, value in self.neighbours]}


def fill(
    uriel: Uriel, representation: Representation, language: str, neighbours: Sequence[int]
) -> tuple[str, list[Filled]]:
    """The code of a model's language, and what is missing of it; it may be one that URIEL does not know at all.

    Of the numbers of neighbours the one is taken that is best for the other languages. Sources are put together here;
    where they contradict each other a language has no value.
    """
    code = Languages(representation.codes).find(language)
    own = uriel.iso(code)
    located = require(uriel.locate(other for other in representation.codes if uriel.iso(other) != own or own is None))
    others = [other for other in located.codes if other != code]
    rows = [representation.codes.index(each) for each in (code, *others)]
    similarity_LL = similarities(representation.values[rows])
    found: list[Filled] = []
    for group in GROUPS:
        isos = [located.iso_of[other] for other in others]
        if sets := uriel.feature_sets(isos, group):
            told = FeatureSet(group, "all", sets[0].features, uriel.together(isos, group))
            found += _fill_group(told, uriel.missing(own, group), similarity_LL, others, neighbours)
    return code, found


def _fill_group(
    told: FeatureSet, missing: Order, similarity_LL: Floats, others: Sequence[str], neighbours: Sequence[int]
) -> list[Filled]:
    order_NLM = ranked(similarity_LL[None, 1:, 1:])
    k = neighbours[
        int(np.argmax(count(order_NLM, told, neighbours, Vote.MAJORITY, nested=False).accuracy()[0].round(9)))
    ]
    nearest_L = np.argsort(-similarity_LL[0, 1:], kind="stable")
    found = []
    for feature in missing:
        column_L = told.value_LF[:, feature]
        near = [int(i) for i in nearest_L if column_L[i] != UNKNOWN][:k]
        if not near:
            continue
        votes = int(column_L[near].sum())
        value = int(2 * votes > len(near) or (2 * votes == len(near) and column_L[near[-1]] == 0))
        agree = votes if value else len(near) - votes
        alone = FeatureSet(told.group, told.source, (told.features[feature],), told.value_LF[:, [feature]])
        checked = count(order_NLM, alone, (k,), Vote.MAJORITY, nested=False)
        accuracy = float(checked.accuracy()[0, 0]) if checked.total_L.any() else None
        named = tuple((others[i], int(column_L[i])) for i in near)
        found.append(Filled(told.group, told.features[feature], value, agree / len(near), accuracy, named))
    return found
