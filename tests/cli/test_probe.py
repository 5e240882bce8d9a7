from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from manyglot.model.guidance import METHODS, method_name
from manyglot.probing.representations import model_name, read_representations
from tests.commands import mistake, run
from tests.probing.made_up import write_uriel
from tests.probing.models import CODES, VALUES, Maker
from tests.probing.models import make as make


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    value_LF = VALUES.astype(np.float32)
    value_LF[2, :6] = -1
    return write_uriel(tmp_path / "data", CODES, value_LF)


def test_representations_are_those_of_the_guidance_each_once(make: Maker) -> None:
    (tag,) = read_representations(make("both", {"method": "token"}, {"method": "lee"}))
    assert (tag.model, tag.method, tag.values.shape) == ("both", "token", (16, 16))
    found = read_representations(make("more", {"method": "laa"}, {"method": "laln"}))
    assert [(each.method, each.values.ndim) for each in found] == [("laa", 3), ("laln", 2)]
    (shared,) = read_representations(make("same", {"method": "token"}, {"method": "lee"}), method="lee")
    assert shared.method == "lee", "also what is there once is found by both names"


def test_every_method_that_keeps_something_can_be_probed(make: Maker, folder: Path) -> None:
    for name in map(method_name, METHODS):
        if name != "random_laa":
            (found,) = read_representations(make(name, {"method": name}))
            assert len(found.values) == len(found.codes)


def test_a_model_is_called_by_its_run(tmp_path: Path) -> None:
    assert model_name(tmp_path / "mine" / "model") == "mine"
    assert model_name(tmp_path / "other") == "other"


def test_the_table_has_models_and_baselines(
    make: Maker, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    models = (make("one", {"method": "token"}), f"LAA={make('two', {'method': 'laa'})}")
    out, err = run(capsys, "probe", *models, "--uriel", folder, "--permutations", 99, "-o", tmp_path / "p.svg")
    out, _, related = out.partition("| distances in |")
    assert related.count("| one (token) | syntactic | 14 |") == 1
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in out.splitlines() if line[:1] == "|"]
    assert rows[0] == ["features", "representation", *(f"k = {k}" for k in (1, 3, 5, 7, 9)), "chosen", "p"]
    names = ["one (token)", "LAA (laa)", "family + geography", "random vectors", "majority class"]
    assert [row[:2] for row in rows[2:]] == [[g, name] for g in ("syntax", "phonology", "inventory") for name in names]
    assert all(float(row[7]) > 95 for row in rows[2:] if row[1] == names[0])
    assert "Left out: nl (not in URIEL)." in err
    assert (tmp_path / "p.svg").read_text("utf-8").count("majority class") == 1


def test_the_papers_protocol_as_json(make: Maker, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = make("one", {"method": "token"})
    out, _ = run(capsys, "probe", model, "--uriel", folder, "--vote", "paper", "--neighbours", "1,3", "--json")
    answer = json.loads(out)
    assert answer["left_out"] == {"nl": {"reason": "not_in_uriel"}}
    (result,) = answer["results"]
    assert [each["kind"] for each in result["mantel"]] == ["genetic", "geographic", "syntactic"]
    assert result["languages"] == CODES
    for group in result["groups"]:
        assert group["score"]["best"] == max(group["score"]["by_number"])
        assert len(group["baselines"]["random_std"]["by_number"]) == 2


def test_the_map_is_drawn_beside(make: Maker, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture = tmp_path / "map.svg"
    run(capsys, "probe", make("one", {"method": "laa"}), "--uriel", folder, "--map", picture, "--colour", "script")
    assert "map by script" in picture.read_text("utf-8")


def test_a_representation_is_chosen_by_its_method(
    make: Maker, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, picture = make("two", {"method": "laa"}, {"method": "token"}), tmp_path / "map.svg"
    asked = ("probe", model, "--uriel", folder, "--neighbours", "1,3")
    _, err = run(capsys, *asked, "--fill", "nl", "--json")
    assert "--fill goes by laa; --representation has it go by token." in err
    out, err = run(capsys, *asked, "--fill", "nl", "--representation", "token", "--json")
    assert (json.loads(out)["method"], err) == ("token", "")
    out, _ = run(capsys, *asked, "--map", picture, "--representation", "token", "--permutations", 9)
    assert "two (token)" in picture.read_text("utf-8")
    assert "two (laa)" not in out
    assert "two has no representation 'lalt'; it has laa, token." in mistake(capsys, *asked, "--representation", "lalt")


def test_missing_features_are_filled_with_neighbours_and_confidence(
    make: Maker, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = make("one", {"method": "token"})
    out, _ = run(capsys, "probe", model, "--uriel", folder, "--fill", CODES[2], "--neighbours", "1,3", "--json")
    filled = json.loads(out)["filled"]
    assert {each["feature"] for each in filled} == {"S_0", "P_1", "INV_2", "S_3", "P_4", "INV_5"}
    for each in filled:
        assert each["value"] == VALUES[2, int(each["feature"].split("_")[1])]
        assert each["neighbours"][0]["language"] in CODES[:5]
        assert 0.5 < each["confidence"] <= 1
    out, _ = run(capsys, "probe", model, "--uriel", folder, "--fill", "Dutch", "--neighbours", "1,3")
    assert out.count("| syntax |") == 10


def test_mistakes_are_one_line(make: Maker, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, uriel = make("one", {"method": "token"}), ("--uriel", folder)
    bare = make("bare")
    assert "bare has no representations of its languages: its guidance (none)" in mistake(capsys, "probe", bare, *uriel)
    drawn = make("drawn", {"method": "random_laa"})
    assert "its guidance (random_laa) keeps none" in mistake(capsys, "probe", drawn, *uriel)
    assert "Two models are called 'one'" in mistake(capsys, "probe", model, model, *uriel)
    assert "'most' is not a vote" in mistake(capsys, "probe", model, "--vote", "most", *uriel)
    assert "not a list of numbers" in mistake(capsys, "probe", model, "--neighbours", "a", *uriel)
    too_many = mistake(capsys, "probe", model, "--neighbours", "15", *uriel)
    assert "15 neighbours need 16 languages" in too_many
    assert "no feature of syntax has more than 15 of these 15" in too_many
    assert "such as --neighbours 1,3,5,7,9." in too_many
    assert "Unknown language 'Klingonisch'" in mistake(capsys, "probe", model, "--fill", "Klingonisch", *uriel)
    assert "no features.npz" in mistake(capsys, "probe", model, "--uriel", tmp_path)
    assert "a picture is written as" in mistake(capsys, "probe", model, "-o", "table.txt", *uriel)
    assert "there is no folder" in mistake(capsys, "probe", model, "-o", tmp_path / "none" / "a.svg", *uriel)
    assert "'mine=' is not a folder" in mistake(capsys, "probe", "mine=", *uriel)
    few = make("few", {"method": "token"}, codes=["qzz"])
    assert "nl (not in URIEL), qzz (not in URIEL)" in mistake(capsys, "probe", few, *uriel)
    two = (model, make("two", {"method": "laa"}))
    assert "--fill takes one model" in mistake(capsys, "probe", *two, "--fill", "nl", *uriel)
    assert "--map takes one model" in mistake(capsys, "probe", *two, "--map", tmp_path / "map.png", *uriel)
    assert "'size' is not known" in mistake(capsys, "probe", model, "--colour", "size", *uriel)


def test_without_the_data_it_says_what_to_install(
    make: Maker, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MANYGLOT_URIEL", raising=False)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert "pip install 'manyglot[typology]'" in mistake(capsys, "probe", make("one", {"method": "token"}))
