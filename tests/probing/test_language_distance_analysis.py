from __future__ import annotations

from itertools import combinations, pairwise
from pathlib import Path

import numpy as np
import pytest

from manyglot.probing.language_distance_analysis import (
    average_linkage,
    classical_mds,
    cosine_distances,
    language_families,
    leaf_order,
    mantel_test,
    mantel_tests_with_uriel,
    script_names,
    uriel_distances,
)
from manyglot.probing.language_representations import LanguageRepresentation
from manyglot.probing.uriel import UrielDatabase
from manyglot.reports.language_similarity_plots import label_points, plot_language_similarity
from tests.probing.synthetic_families import make_families, vectors
from tests.probing.synthetic_uriel import write_uriel

CODES = [f"q{a}{b}" for a in "abc" for b in "abcde"]


def test_average_linkage_merges_the_nearest_clusters_first() -> None:
    point_L = np.array([0.0, 10.0, 1.0, 12.0])
    merges = average_linkage(np.abs(point_L[:, None] - point_L[None]))
    assert [(merge.left, merge.right, merge.height) for merge in merges] == [(0, 2, 1.0), (1, 3, 2.0), (4, 5, 10.5)]
    assert leaf_order(merges) == [0, 2, 1, 3]


def test_families_are_clusters() -> None:
    distance_LL = cosine_distances(vectors(make_families(4, 6, 60, change=0.05), 64))
    order = leaf_order(average_linkage(distance_LL))
    families = [language // 6 for language in order]
    assert sum(a != b for a, b in pairwise(families)) == 3


def test_mds_preserves_planar_distances() -> None:
    point_L2 = np.random.default_rng(1).standard_normal((9, 2))
    distance_LL = np.linalg.norm(point_L2[:, None] - point_L2[None], axis=2)
    mds_L2, explained = classical_mds(distance_LL)
    assert explained == pytest.approx(1)
    np.testing.assert_allclose(np.linalg.norm(mds_L2[:, None] - mds_L2[None], axis=2), distance_LL, atol=1e-9)


def test_the_mantel_test_separates_related_from_unrelated_distances() -> None:
    rng = np.random.default_rng(1)
    points = rng.standard_normal((20, 3))
    one = np.linalg.norm(points[:, None] - points[None], axis=2)
    similar = np.linalg.norm((points + 0.1 * rng.standard_normal(points.shape))[:, None] - points[None], axis=2)
    similar = (similar + similar.T) / 2
    similar[3], similar[:, 3] = np.nan, np.nan  # one language has no distances
    similar[1, 2] = similar[2, 1] = np.nan
    related = mantel_test("x", one, similar, 99)
    assert related is not None
    assert (related.p_value, related.num_languages) == (0.01, 19)
    usable = [i for i in range(20) if i != 3]
    pairs = [(i, j) for i in usable for j in usable if i < j and (i, j) != (1, 2)]
    expected = np.corrcoef([one[pair] for pair in pairs], [similar[pair] for pair in pairs])[0, 1]
    assert related.correlation == pytest.approx(expected)
    other = rng.random((20, 20))
    unrelated = mantel_test("x", one, other + other.T, 99)
    assert unrelated is not None
    assert unrelated.p_value > 0.05
    assert mantel_test("x", one[:3, :3], similar[:3, :3], 99) is None


def test_the_mantel_test_has_the_nominal_false_positive_rate() -> None:
    family_L = np.arange(18) // 3  # many tied distances
    other_LL = (family_L[:, None] != family_L[None]).astype(np.float64)
    other_LL[0, 5:9] = other_LL[5:9, 0] = np.nan
    other_LL[17], other_LL[:, 17] = np.nan, np.nan
    results = []
    for draw in range(500):
        random = cosine_distances(np.random.default_rng([draw, 1]).standard_normal((18, 32)))
        results.append(mantel_test("x", random, other_LL, 99, seed=draw))
    p_N = np.array([result.p_value for result in results if result])
    assert 0.025 < (p_N <= 0.05).mean() < 0.08
    assert 0.43 < (p_N <= 0.5).mean() < 0.57


def test_the_map_shows_every_language(tmp_path: Path) -> None:
    value_LF = make_families(3, 5, 60, change=0.05)
    uriel = UrielDatabase(write_uriel(tmp_path / "data", CODES, value_LF.astype(np.float32)))
    representation = LanguageRepresentation(
        "mine", "token", (*CODES, "ru"), np.append(vectors(value_LF, 8), np.ones((1, 8)), axis=0)
    )
    assert script_names(["de", "ru", "zh-tw", "qaa"]) == ["Latin", "Cyrillic", "Han, traditional", ""]
    assert language_families(uriel, representation.codes)[-1] == ""
    for name in ("map.svg", "map.png"):
        plot_language_similarity(uriel, representation, "family", tmp_path / name)
    text = (tmp_path / "map.svg").read_text("utf-8")
    assert all(text.count(f">{code}<") == 3 for code in representation.codes)
    syntactic = next(m for m in mantel_tests_with_uriel(uriel, representation, 99) if m.distance_kind == "syntactic")
    assert (syntactic.num_languages, syntactic.p_value) == (15, 0.01)


def test_labels_do_not_overlap() -> None:
    from matplotlib.figure import Figure
    from matplotlib.text import Text

    figure = Figure(figsize=(4, 4), layout="constrained")
    axes = figure.subplots()
    point_L2 = np.random.default_rng(1).standard_normal((40, 2))
    axes.scatter(*point_L2.T, s=12)
    label_points(axes, point_L2, [f"q{i:02}" for i in range(40)], 6)
    figure.draw_without_rendering()
    boxes = [Text.get_window_extent(text) for text in axes.texts]  # without the line to the point
    assert len(boxes) == 40
    overlapping = [1 for one, other in combinations(boxes, 2) if one.padded(-1).overlaps(other.padded(-1))]
    assert len(overlapping) == 0
    pixel_L2 = axes.transData.transform(point_L2)
    assert not any(box.contains(*pixel) for box in boxes for pixel in pixel_L2)


def test_uriel_distances_are_plausible(uriel: UrielDatabase) -> None:
    codes = ["de", "nl", "fr", "ja", "zh", "eu"]
    isos = [uriel.find_iso(code) or "" for code in codes]
    assert language_families(uriel, codes)[:3] == ["Indo-European"] * 3
    distances = uriel_distances(uriel, isos)
    for kind in ("genetic", "geographic", "syntactic"):
        assert distances[kind][0, 1] < distances[kind][0, 3]
    assert np.isnan(distances["genetic"][5]).all()
    assert distances["geographic"][3, 4] < distances["geographic"][3, 0]
