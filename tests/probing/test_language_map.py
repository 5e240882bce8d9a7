from __future__ import annotations

from itertools import combinations, pairwise
from pathlib import Path

import numpy as np
import pytest

from manyglot.probing.language_map import (
    correlations,
    distances,
    families,
    leaves,
    mantel,
    plane,
    scripts,
    tree,
    world_distances,
)
from manyglot.probing.representations import Representation
from manyglot.probing.uriel import Uriel
from manyglot.reports.language_map import draw_map, name_places
from tests.probing.families import grow, vectors
from tests.probing.made_up import write_uriel

CODES = [f"q{a}{b}" for a in "abc" for b in "abcde"]


def test_a_tree_joins_the_nearest_first_and_averages() -> None:
    point_L = np.array([0.0, 10.0, 1.0, 12.0])
    joins = tree(np.abs(point_L[:, None] - point_L[None]))
    assert [(join.left, join.right, join.height) for join in joins] == [(0, 2, 1.0), (1, 3, 2.0), (4, 5, 10.5)]
    assert leaves(joins) == [0, 2, 1, 3]


def test_families_are_branches() -> None:
    distance_LL = distances(vectors(grow(4, 6, 60, change=0.05), 64))
    order = leaves(tree(distance_LL))
    families = [language // 6 for language in order]
    assert sum(a != b for a, b in pairwise(families)) == 3


def test_the_plane_keeps_distances_that_are_of_a_plane() -> None:
    place_L2 = np.random.default_rng(1).standard_normal((9, 2))
    distance_LL = np.linalg.norm(place_L2[:, None] - place_L2[None], axis=2)
    found_L2, spread = plane(distance_LL)
    assert spread == pytest.approx(1)
    np.testing.assert_allclose(np.linalg.norm(found_L2[:, None] - found_L2[None], axis=2), distance_LL, atol=1e-9)


def test_the_mantel_test_tells_what_is_related_from_what_is_not() -> None:
    rng = np.random.default_rng(1)
    place = rng.standard_normal((20, 3))
    one = np.linalg.norm(place[:, None] - place[None], axis=2)
    alike = np.linalg.norm((place + 0.1 * rng.standard_normal(place.shape))[:, None] - place[None], axis=2)
    alike = (alike + alike.T) / 2
    alike[3], alike[:, 3] = np.nan, np.nan  # of one language nothing is known
    alike[1, 2] = alike[2, 1] = np.nan
    related = mantel("x", one, alike, 99)
    assert related is not None
    assert (related.p_value, related.num_languages) == (0.01, 19)
    keep = [i for i in range(20) if i != 3]
    pairs = [(i, j) for i in keep for j in keep if i < j and (i, j) != (1, 2)]
    expected = np.corrcoef([one[pair] for pair in pairs], [alike[pair] for pair in pairs])[0, 1]
    assert related.correlation == pytest.approx(expected)
    other = rng.random((20, 20))
    unrelated = mantel("x", one, other + other.T, 99)
    assert unrelated is not None
    assert unrelated.p_value > 0.05
    assert mantel("x", one[:3, :3], alike[:3, :3], 99) is None


def test_the_mantel_test_errs_as_often_as_it_says() -> None:
    family_L = np.arange(18) // 3  # many distances are the same
    other_LL = (family_L[:, None] != family_L[None]).astype(np.float64)
    other_LL[0, 5:9] = other_LL[5:9, 0] = np.nan
    other_LL[17], other_LL[:, 17] = np.nan, np.nan
    found = []
    for draw in range(500):
        random = distances(np.random.default_rng([draw, 1]).standard_normal((18, 32)))
        found.append(mantel("x", random, other_LL, 99, seed=draw))
    p_N = np.array([each.p_value for each in found if each])
    assert 0.025 < (p_N <= 0.05).mean() < 0.08
    assert 0.43 < (p_N <= 0.5).mean() < 0.57


def test_the_map_has_every_language_and_its_kind(tmp_path: Path) -> None:
    value_LF = grow(3, 5, 60, change=0.05)
    uriel = Uriel(write_uriel(tmp_path / "data", CODES, value_LF.astype(np.float32)))
    made = Representation("mine", "token", (*CODES, "ru"), np.append(vectors(value_LF, 8), np.ones((1, 8)), axis=0))
    assert scripts(["de", "ru", "zh-tw", "qaa"]) == ["Latin", "Cyrillic", "Han, traditional", ""]
    assert families(uriel, made.codes)[-1] == ""
    for name in ("map.svg", "map.png"):
        draw_map(uriel, made, "family", tmp_path / name)
    text = (tmp_path / "map.svg").read_text("utf-8")
    assert all(text.count(f">{code}<") == 3 for code in made.codes)
    syntactic = next(each for each in correlations(uriel, made, 99) if each.kind == "syntactic")
    assert (syntactic.num_languages, syntactic.p_value) == (15, 0.01)


def test_names_on_the_plane_cover_nothing() -> None:
    from matplotlib.figure import Figure
    from matplotlib.text import Text

    figure = Figure(figsize=(4, 4), layout="constrained")
    axes = figure.subplots()
    place_L2 = np.random.default_rng(1).standard_normal((40, 2))
    axes.scatter(*place_L2.T, s=12)
    name_places(axes, place_L2, [f"q{i:02}" for i in range(40)], 6)
    figure.draw_without_rendering()
    boxes = [Text.get_window_extent(text) for text in axes.texts]  # without the line to the point
    assert len(boxes) == 40
    covered = [1 for one, other in combinations(boxes, 2) if one.padded(-1).overlaps(other.padded(-1))]
    assert len(covered) == 0
    point_L2 = axes.transData.transform(place_L2)
    assert not any(box.contains(*point) for box in boxes for point in point_L2)


def test_distances_in_the_world_are_plausible(uriel: Uriel) -> None:
    codes = ["de", "nl", "fr", "ja", "zh", "eu"]
    isos = [uriel.iso(code) or "" for code in codes]
    assert families(uriel, codes)[:3] == ["Indo-European"] * 3
    found = world_distances(uriel, isos)
    for kind in ("genetic", "geographic", "syntactic"):
        assert found[kind][0, 1] < found[kind][0, 3]
    assert np.isnan(found["genetic"][5]).all()
    assert found["geographic"][3, 4] < found["geographic"][3, 0]
