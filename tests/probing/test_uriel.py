from __future__ import annotations

import os
import random
import sys
from pathlib import Path

import numpy as np
import pytest

from manyglot.errors import FolderError, LanguageError, ManyglotError
from manyglot.probing import uriel as module
from manyglot.probing.uriel import (
    URIEL_FOLDER_VARIABLE,
    Exclusion,
    ExclusionReason,
    UrielDatabase,
    find_uriel_folder,
    require_two_languages,
)
from tests.probing.synthetic_uriel import write_uriel

CODES = ["deu", "por", "lav", "lvs", "slk"]


@pytest.fixture
def small(tmp_path: Path) -> UrielDatabase:
    value_LF = np.array([[1, 0, 1], [0, 1, 1], [1, -1, 0], [-1, -1, -1], [-1, -1, -1]], np.float32)
    return UrielDatabase(write_uriel(tmp_path / "data", CODES, value_LF))


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
def test_codes_of_any_standard_find_their_entry(small: UrielDatabase, code: str, iso: str | None) -> None:
    assert small.find_iso(code) == iso


def test_excluded_languages_have_a_reason(small: UrielDatabase) -> None:
    matched = small.match_languages(["de", "lv", "pt", "pt-br", "qaa", "sk"])
    assert matched.iso_by_code == {"de": "deu", "lv": "lav", "pt": "por"}
    assert matched.exclusions == {
        "pt-br": Exclusion(ExclusionReason.DUPLICATE, "pt"),
        "qaa": Exclusion(ExclusionReason.NOT_IN_URIEL),
        "sk": Exclusion(ExclusionReason.NO_FEATURES),
    }


def test_a_variant_represents_its_language_if_the_plain_code_is_missing(small: UrielDatabase) -> None:
    assert small.match_languages(["de", "pt-br", "pt-pt"]).codes == ("de", "pt-br")
    assert small.match_languages(["deu_Cyrl", "deu_Latn", "slk"]).codes == ("deu_Latn",)


def test_feature_sets_are_per_source_and_shared_by_two_languages(small: UrielDatabase) -> None:
    (syntax,) = small.feature_set_per_source(["deu", "por", "lav"], "syntax")
    assert (syntax.source, syntax.feature_names) == ("WALS", ("S_0",))
    assert syntax.value_LF.tolist() == [[1], [0], [1]]
    assert [s.source for s in small.feature_set_per_source(["deu", "por"], "inventory")] == ["PHOIBLE_SPA"]
    assert small.feature_set_per_source(["deu", "lav"], "phonology") == []


def test_family_and_geography_vectors_have_unit_length_halves(small: UrielDatabase) -> None:
    vector_LD = small.family_and_geography_vectors(["deu", "por", "xxx"])
    assert vector_LD.shape == (3, 12)
    np.testing.assert_allclose(np.linalg.norm(vector_LD[:2, 7:], axis=1), 1)
    assert not vector_LD[2, :7].any()
    alone_LD = small.family_and_geography_vectors(["deu", "por"])
    np.testing.assert_allclose(alone_LD[0, 7:], -alone_LD[1, 7:])  # centring leaves only their difference
    centered_LD = small.family_and_geography_vectors(["deu", "por"], ["deu", "por", "lav", "slk"])
    assert centered_LD[0, 7:] @ centered_LD[1, 7:] > -0.99, "the other languages shift the center"


def test_fewer_than_two_languages_are_refused(small: UrielDatabase) -> None:
    with pytest.raises(LanguageError, match=r"qaa \(not in URIEL\)"):
        require_two_languages(small.match_languages(["de", "qaa"]))


def test_the_uriel_folder_is_an_argument_an_environment_variable_or_a_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(URIEL_FOLDER_VARIABLE, raising=False)
    monkeypatch.setattr(sys, "path", [str(tmp_path / "bin")])
    with pytest.raises(ManyglotError, match=r"pip install 'manyglot\[typology\]'"):
        find_uriel_folder()
    with pytest.raises(FolderError, match=r"no features\.npz"):
        find_uriel_folder(tmp_path)
    folder = write_uriel(tmp_path / "data", ["deu"], np.zeros((1, 3), np.float32))
    monkeypatch.setenv(URIEL_FOLDER_VARIABLE, str(folder))
    assert find_uriel_folder() == folder


def test_a_script_of_the_same_name_does_not_hide_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The wheel of lang2vec puts lang2vec.py into the folder of scripts, which comes first for console scripts."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "lang2vec.py").write_text("raise SystemExit")
    folder = write_uriel(tmp_path / "site" / "lang2vec" / "data", ["deu"], np.zeros((1, 3), np.float32))
    monkeypatch.delenv(URIEL_FOLDER_VARIABLE, raising=False)
    monkeypatch.setattr(sys, "path", [str(tmp_path / "bin"), str(tmp_path / "site")])
    assert find_uriel_folder() == folder


@pytest.mark.parametrize("name", ["features.npz", "letter_codes.json", "family_features.npz"])
def test_a_damaged_file_raises_a_one_line_error(tmp_path: Path, name: str) -> None:
    folder = write_uriel(tmp_path / "data", ["deu"], np.zeros((1, 3), np.float32))
    (folder / name).write_bytes(b"nothing of the kind")
    with pytest.raises(FolderError, match=name):
        _read_all_files(folder)
    (folder / name).unlink()
    os.mkfifo(folder / name)
    with pytest.raises(FolderError, match=f"{name} is not a file"):
        _read_all_files(folder)


def test_any_damaged_byte_is_noticed_or_harmless(tmp_path: Path) -> None:
    folder = write_uriel(tmp_path / "data", ["deu", "fra"], np.zeros((2, 3), np.float32))
    path, rng = folder / "family_features.npz", random.Random(1)
    original = path.read_bytes()
    messages = []
    for _ in range(200):
        position = rng.randrange(len(original))
        path.write_bytes(original[:position] + rng.randbytes(1) + original[position + 1 :])
        try:
            _read_all_files(folder)
        except FolderError as error:
            messages.append(str(error))
    assert len(messages) > 100
    assert max(map(len, messages)) < 400 + len(str(path))


@pytest.mark.parametrize("value", [np.nan, np.inf, "text"])
def test_values_that_are_no_finite_numbers_are_refused(tmp_path: Path, value: object) -> None:
    folder = write_uriel(tmp_path / "data", ["deu"], np.zeros((1, 3), np.float32))
    arrays = dict(np.load(folder / "features.npz")) | {"data": np.full((1, 3, 4), value)}
    np.savez(folder / "features.npz", **arrays)
    with pytest.raises(FolderError, match="not finite numbers"):
        UrielDatabase(folder)


def test_arrays_that_are_too_large_are_not_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_uriel(tmp_path / "data", ["deu"], np.zeros((1, 3), np.float32))
    monkeypatch.setattr("manyglot.probing.uriel.MAX_ARRAY_BYTES", 100)
    with pytest.raises(FolderError, match="too large"):
        UrielDatabase(folder)


def _read_all_files(folder: Path) -> None:
    database = UrielDatabase(folder)
    database.find_iso("de")
    database.family_and_geography_vectors(["deu"])


def test_the_real_database_matches_common_languages(uriel: UrielDatabase) -> None:
    matched = uriel.match_languages(["ar", "de", "sh", "sk", "sr", "zh", "zh-cn"])
    assert matched.iso_by_code == {"ar": "ara", "de": "deu", "sh": "hbs", "sr": "srp", "zh": "zho"}
    assert set(matched.exclusions) == {"sk", "zh-cn"}
    sizes = {
        group: uriel.feature_set_per_source(["deu", "zho"], group)[0].value_LF.shape[1]
        for group in module.FEATURE_GROUPS
    }
    assert sizes == {"syntax": 103, "phonology": 28, "inventory": 158}
