from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from manyglot.errors import FolderError, LanguageError, ManyglotError
from manyglot.probing import uriel as module
from manyglot.probing.uriel import VARIABLE, Exclusion, ExclusionReason, Uriel, find_data, require
from tests.probing.made_up import write_uriel

CODES = ["deu", "por", "lav", "lvs", "slk"]


@pytest.fixture
def small(tmp_path: Path) -> Uriel:
    value_LF = np.array([[1, 0, 1], [0, 1, 1], [1, -1, 0], [-1, -1, -1], [-1, -1, -1]], np.float32)
    return Uriel(write_uriel(tmp_path / "data", CODES, value_LF))


@pytest.mark.parametrize(
    ("code", "iso"),
    [
        ("de", "deu"),
        ("deu", "deu"),
        ("deu_Latn", "deu"),
        ("pt-br", "por"),
        ("lvs", "lav"),
        ("sk", "slk"),
        ("qaa", None),
    ],
)
def test_codes_of_any_standard_find_their_language(small: Uriel, code: str, iso: str | None) -> None:
    assert small.iso(code) == iso


def test_languages_that_are_left_out_are_named_with_the_reason(small: Uriel) -> None:
    located = small.locate(["de", "lv", "pt", "pt-br", "qaa", "sk"])
    assert located.iso_of == {"de": "deu", "lv": "lav", "pt": "por"}
    assert located.left_out == {
        "pt-br": Exclusion(ExclusionReason.DUPLICATE, "pt"),
        "qaa": Exclusion(ExclusionReason.NOT_IN_URIEL),
        "sk": Exclusion(ExclusionReason.NO_FEATURES),
    }


def test_a_variant_stands_for_its_language_where_that_is_missing(small: Uriel) -> None:
    assert small.locate(["de", "pt-br", "pt-pt"]).codes == ("de", "pt-br")


def test_sets_are_by_source_and_without_those_that_no_two_languages_share(small: Uriel) -> None:
    (syntax,) = small.feature_sets(["deu", "por", "lav"], "syntax")
    assert (syntax.source, syntax.features) == ("WALS", ("S_0",))
    assert syntax.value_LF.tolist() == [[1], [0], [1]]
    assert [each.source for each in small.feature_sets(["deu", "por"], "inventory")] == ["PHOIBLE_SPA"]
    assert small.feature_sets(["deu", "lav"], "phonology") == []


def test_family_and_geography_are_halves_of_equal_length(small: Uriel) -> None:
    vector_LD = small.family_and_geography(["deu", "por", "xxx"])
    assert vector_LD.shape == (3, 12)
    np.testing.assert_allclose(np.linalg.norm(vector_LD[:2, 7:], axis=1), 1)
    assert not vector_LD[2, :7].any()
    alone_LD = small.family_and_geography(["deu", "por"])
    np.testing.assert_allclose(alone_LD[0, 7:], -alone_LD[1, 7:])  # of two, nothing but their difference is left
    among_LD = small.family_and_geography(["deu", "por"], ["deu", "por", "lav", "slk"])
    assert among_LD[0, 7:] @ among_LD[1, 7:] > -0.99, "which differ less among others"


def test_fewer_than_two_languages_are_refused_by_name(small: Uriel) -> None:
    with pytest.raises(LanguageError, match=r"qaa \(not in URIEL\)"):
        require(small.locate(["de", "qaa"]))


def test_the_folder_is_given_or_of_the_environment_or_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setattr(module.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ManyglotError, match=r"pip install 'manyglot\[typology\]'"):
        find_data()
    with pytest.raises(FolderError, match=r"no features\.npz"):
        find_data(tmp_path)
    folder = write_uriel(tmp_path / "data", ["deu"], np.zeros((1, 3), np.float32))
    monkeypatch.setenv(VARIABLE, str(folder))
    assert find_data() == folder


@pytest.mark.parametrize("name", ["features.npz", "letter_codes.json", "family_features.npz"])
def test_a_damaged_file_is_one_line(tmp_path: Path, name: str) -> None:
    folder = write_uriel(tmp_path / "data", ["deu"], np.zeros((1, 3), np.float32))
    (folder / name).write_bytes(b"nothing of the kind")
    with pytest.raises(FolderError, match=name):
        _use(folder)


def _use(folder: Path) -> None:
    database = Uriel(folder)
    database.iso("de")
    database.family_and_geography(["deu"])


def test_the_real_database_has_the_usual_languages(uriel: Uriel) -> None:
    located = uriel.locate(["ar", "de", "sh", "sk", "sr", "zh", "zh-cn"])
    assert located.iso_of == {"ar": "ara", "de": "deu", "sh": "hbs", "sr": "srp", "zh": "zho"}
    assert set(located.left_out) == {"sk", "zh-cn"}
    sizes = {group: uriel.feature_sets(["deu", "zho"], group)[0].value_LF.shape[1] for group in module.GROUPS}
    assert sizes == {"syntax": 103, "phonology": 28, "inventory": 158}
