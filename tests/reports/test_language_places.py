from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from manyglot.probing.neighbours import similarities
from manyglot.probing.uriel import VARIABLE
from manyglot.reports.language_places import language_places, pairs_of
from tests.probing.families import grow, vectors
from tests.probing.made_up import write_uriel

CODES = ["deu", "por", "lav", "slk", "ru"]
VECTORS = vectors(grow(1, 5, 40, change=0.2), 16)
ABOUT = {"languages": CODES, "similarities": {"token": pairs_of(VECTORS)}}


def test_similarities_are_kept_and_placed() -> None:
    (places,) = language_places([("mine", ABOUT)])
    np.testing.assert_allclose(places["similarity"], similarities(VECTORS), atol=1e-4)
    assert sorted(places["order"]) == list(range(5))
    assert [len(places[key]) for key in ("joins", "plane")] == [4, 5]
    assert (places["run"], places["method"]) == ("mine", "token")


def test_families_are_told_where_the_database_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "nothing"))
    (places,) = language_places([("mine", ABOUT)])
    assert places["languages"][4] == {"code": "ru", "name": "Russian", "script": "Cyrillic"}
    monkeypatch.setenv(VARIABLE, str(write_uriel(tmp_path / "data", CODES[:4], np.zeros((4, 3), np.float32))))
    (places,) = language_places([("mine", ABOUT)])
    families = [language["family"] for language in places["languages"]]
    assert any(families)
    assert families[4] == "", "which this database does not have"


@pytest.mark.parametrize(
    "about",
    [
        {},
        {"languages": CODES},
        {"languages": CODES, "similarities": {"token": None}},
        {"languages": CODES, "similarities": {"token": [0.5]}},
        {"languages": CODES[:2], "similarities": {"token": [0.5]}},
        {"languages": CODES[:3], "similarities": {"token": [0.5, float("nan"), 0.1]}},
    ],
)
def test_what_makes_no_map_is_left_out(about: dict[str, object]) -> None:
    assert language_places([("mine", about)]) == []


def test_a_training_that_failed_has_no_similarities() -> None:
    assert pairs_of(VECTORS * np.nan) is None
