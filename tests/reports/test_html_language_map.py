from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from manyglot.probing.knn import cosine_similarities
from manyglot.probing.uriel import URIEL_FOLDER_VARIABLE
from manyglot.reports.html_language_map import lower_triangle_similarities, representation_map_data
from tests.probing.synthetic_families import make_families, vectors
from tests.probing.synthetic_uriel import write_uriel

CODES = ["deu", "por", "lav", "slk", "ru"]
VECTORS = vectors(make_families(1, 5, 40, change=0.2), 16)
SYSTEM_FACTS = {"languages": CODES, "similarities": {"token": lower_triangle_similarities(VECTORS)}}


def test_the_map_data_has_similarities_dendrogram_and_points() -> None:
    (map_data,) = representation_map_data([("mine", SYSTEM_FACTS)])
    np.testing.assert_allclose(map_data["similarity"], cosine_similarities(VECTORS), atol=1e-4)
    assert sorted(map_data["leaf_order"]) == list(range(5))
    assert [len(map_data[key]) for key in ("merges", "points")] == [4, 5]
    assert (map_data["run"], map_data["method"]) == ("mine", "token")


def test_families_are_included_if_uriel_is_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(URIEL_FOLDER_VARIABLE, str(tmp_path / "nothing"))
    (map_data,) = representation_map_data([("mine", SYSTEM_FACTS)])
    assert map_data["languages"][4] == {"code": "ru", "name": "Russian", "script": "Cyrillic"}
    monkeypatch.setenv(
        URIEL_FOLDER_VARIABLE, str(write_uriel(tmp_path / "data", CODES[:4], np.zeros((4, 3), np.float32)))
    )
    (map_data,) = representation_map_data([("mine", SYSTEM_FACTS)])
    families = [language["family"] for language in map_data["languages"]]
    assert any(families)
    assert families[4] == "", "this database lacks Russian"


@pytest.mark.parametrize(
    "system_facts",
    [
        {},
        {"languages": CODES},
        {"languages": CODES, "similarities": {"token": None}},
        {"languages": CODES, "similarities": {"token": [0.5]}},
        {"languages": CODES[:2], "similarities": {"token": [0.5]}},
        {"languages": CODES[:3], "similarities": {"token": [0.5, float("nan"), 0.1]}},
    ],
)
def test_incomplete_similarities_give_no_map(system_facts: dict[str, object]) -> None:
    assert representation_map_data([("mine", system_facts)]) == []


def test_representations_that_are_not_finite_have_no_similarities() -> None:
    assert lower_triangle_similarities(VECTORS * np.nan) is None
