from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from manyglot.model.guidance import METHODS, method_name
from manyglot.probing.language_representations import default_model_name, load_representations
from tests.commands import mistake, run
from tests.probing.models import CODES, VALUES, Maker
from tests.probing.models import make as make
from tests.probing.synthetic_uriel import write_uriel


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    value_LF = VALUES.astype(np.float32)
    value_LF[2, :6] = -1
    return write_uriel(tmp_path / "data", CODES, value_LF)


def test_each_guidance_method_has_one_representation(make: Maker) -> None:
    (tag,) = load_representations(make("both", {"method": "token"}, {"method": "lee"}))
    assert (tag.model_name, tag.method, tag.values.shape) == ("both", "token", (16, 16))
    representations = load_representations(make("more", {"method": "laa", "init_gain": 1.0}, {"method": "laln"}))
    assert [(each.method, each.values.ndim) for each in representations] == [("laa", 3), ("laln", 2)]
    (shared,) = load_representations(make("same", {"method": "token"}, {"method": "lee"}), method="lee")
    assert shared.method == "lee", "a shared representation has both names"


def test_every_method_with_representations_can_be_probed(make: Maker, folder: Path) -> None:
    for name in map(method_name, METHODS):
        if name != "random_laa":
            (representations,) = load_representations(make(name, {"method": name}))
            assert len(representations.values) == len(representations.codes)


def test_a_model_is_named_after_its_run(tmp_path: Path) -> None:
    assert default_model_name(tmp_path / "mine" / "model") == "mine"
    assert default_model_name(tmp_path / "other") == "other"


def test_the_table_has_models_and_baselines(
    make: Maker, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    models = (make("one", {"method": "token"}), f"LAA={make('two', {'method': 'laa'})}")
    out, err = run(
        capsys, "probe", *models, "--uriel-folder", folder, "--num-permutations", 99, "-o", tmp_path / "p.svg"
    )
    out, _, related = out.partition("| representation | URIEL distance |")
    assert related.count("| one (token) | syntactic | 14 |") == 1
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in out.splitlines() if line[:1] == "|"]
    assert rows[0] == ["features", "representation", *(f"k = {k}" for k in (1, 3, 5, 7, 9)), "selected k", "p"]
    names = ["one (token)", "LAA (laa)", "family + geography", "random vectors", "majority class"]
    assert [row[:2] for row in rows[2:]] == [[g, name] for g in ("syntax", "phonology", "inventory") for name in names]
    assert all(float(row[7]) > 95 for row in rows[2:] if row[1] == names[0])
    assert "Excluded: nl (not in URIEL)." in err
    assert (tmp_path / "p.svg").read_text("utf-8").count("majority class") == 1


def test_the_papers_protocol_as_json(make: Maker, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = make("one", {"method": "token"})
    out, _ = run(
        capsys, "probe", model, "--uriel-folder", folder, "--voting-rule", "paper", "--k-values", "1,3", "--json"
    )
    answer = json.loads(out)
    assert answer["exclusions"] == {"nl": {"reason": "not_in_uriel"}}
    (result,) = answer["results"]
    assert [mantel["distance_kind"] for mantel in result["mantel_results"]] == ["genetic", "geographic", "syntactic"]
    assert result["languages"] == CODES
    for group in result["group_results"]:
        assert group["knn_accuracy"]["at_selected_k"] == max(group["knn_accuracy"]["by_k"])
        assert len(group["baselines"]["random_std"]["by_k"]) == 2


def test_the_language_map_is_plotted(
    make: Maker, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    picture = tmp_path / "map.svg"
    run(
        capsys,
        "probe",
        make("one", {"method": "laa", "init_gain": 1.0}),
        "--uriel-folder",
        folder,
        "--map",
        picture,
        "--color-by",
        "script",
    )
    assert "map by script" in picture.read_text("utf-8")


def test_method_selects_a_representation(
    make: Maker, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, picture = make("two", {"method": "laa", "init_gain": 1.0}, {"method": "token"}), tmp_path / "map.svg"
    command = ("probe", model, "--uriel-folder", folder, "--k-values", "1,3")
    _, err = run(capsys, *command, "--predict-missing", "nl", "--json")
    assert "--predict-missing uses the representation of laa. Choose another with --method: token." in err
    out, err = run(capsys, *command, "--predict-missing", "nl", "--method", "token", "--json")
    assert (json.loads(out)["method"], err) == ("token", "")
    out, _ = run(capsys, *command, "--map", picture, "--method", "token", "--num-permutations", 9)
    assert "two (token)" in picture.read_text("utf-8")
    assert "two (laa)" not in out
    assert "two has no representation 'lalt'. It has laa, token." in mistake(capsys, *command, "--method", "lalt")


def test_missing_features_are_predicted_from_neighbors(
    make: Maker, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = make("one", {"method": "token"})
    out, _ = run(
        capsys, "probe", model, "--uriel-folder", folder, "--predict-missing", CODES[2], "--k-values", "1,3", "--json"
    )
    filled = json.loads(out)["predicted"]
    assert {each["feature"] for each in filled} == {"S_0", "P_1", "INV_2", "S_3", "P_4", "INV_5"}
    for each in filled:
        assert each["value"] == VALUES[2, int(each["feature"].split("_")[1])]
        assert each["neighbor_values"][0]["language"] in CODES[:5]
        assert 0.5 < each["neighbor_agreement"] <= 1
    out, _ = run(capsys, "probe", model, "--uriel-folder", folder, "--predict-missing", "Dutch", "--k-values", "1,3")
    assert out.count("| syntax |") == 10


def test_mistakes_are_one_line(make: Maker, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, uriel = make("one", {"method": "token"}), ("--uriel-folder", folder)
    bare = make("bare")
    assert "bare has no language representations: its guidance (none)" in mistake(capsys, "probe", bare, *uriel)
    random_model = make("random", {"method": "random_laa", "init_gain": 1.0})
    assert "its guidance (random_laa) does not learn any" in mistake(capsys, "probe", random_model, *uriel)
    assert "Two models are called 'one'" in mistake(capsys, "probe", model, model, *uriel)
    assert "'most' is not a voting rule" in mistake(capsys, "probe", model, "--voting-rule", "most", *uriel)
    assert "not a list of numbers" in mistake(capsys, "probe", model, "--k-values", "a", *uriel)
    too_many = mistake(capsys, "probe", model, "--k-values", "15", *uriel)
    assert "k = 15 needs 16 languages" in too_many
    assert "no syntax feature is known for more than 15 of these 15" in too_many
    assert "such as --k-values 1,3,5,7,9." in too_many
    assert "Unknown language 'Klingonisch'" in mistake(
        capsys, "probe", model, "--predict-missing", "Klingonisch", *uriel
    )
    assert "no features.npz" in mistake(capsys, "probe", model, "--uriel-folder", tmp_path)
    assert "unknown image format" in mistake(capsys, "probe", model, "-o", "table.txt", *uriel)
    assert "none does not exist" in mistake(capsys, "probe", model, "-o", tmp_path / "none" / "a.svg", *uriel)
    assert "'mine=' is not a folder" in mistake(capsys, "probe", "mine=", *uriel)
    few = make("few", {"method": "token"}, codes=["qzz"])
    assert "nl (not in URIEL), qzz (not in URIEL)" in mistake(capsys, "probe", few, *uriel)
    two = (model, make("two", {"method": "laa", "init_gain": 1.0}))
    assert "--predict-missing takes one model" in mistake(capsys, "probe", *two, "--predict-missing", "nl", *uriel)
    assert "--map takes one model" in mistake(capsys, "probe", *two, "--map", tmp_path / "map.png", *uriel)
    assert "'size' is not a choice" in mistake(capsys, "probe", model, "--color-by", "size", *uriel)


def test_missing_uriel_data_names_what_to_install(
    make: Maker, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MANYGLOT_URIEL", raising=False)
    monkeypatch.setattr("sys.path", [])
    assert "pip install 'manyglot[typology]'" in mistake(capsys, "probe", make("one", {"method": "token"}))


def test_a_missing_model_is_reported_before_missing_features(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for options in ((), ("--predict-missing", "de"), ("--all-checkpoints",)):
        assert "nope" in mistake(
            capsys, "probe", tmp_path / "nope", "--uriel-folder", tmp_path / "no-features", *options
        )
