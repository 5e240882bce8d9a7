"""The examples run, and the README shows them as they are."""

from __future__ import annotations

import runpy
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import manyglot
from manyglot.config.experiment import read_experiment
from manyglot.reports.html_report import write_html_report

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples"
QUICK = ["training.max_steps=2", "corpus.train_rows=200", "corpus.test_rows=3", "corpus.dev_rows=3"]


def run(script: str, *arguments: object) -> str:
    command = [sys.executable, str(EXAMPLES / script), *map(str, arguments)]
    return subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT).stdout


@pytest.fixture(scope="module")
def phrasebook_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("phrasebook")
    overrides = [
        *QUICK,
        "corpus.languages=[de,en,sw]",
        "vocabulary.size=500",
        f"data={folder}/data",
        f"run={folder}/run",
    ]
    experiment = read_experiment(ROOT / "src" / "manyglot" / "workflows" / "demo.yaml", overrides)
    manyglot.prepare(experiment)
    return manyglot.train(experiment).model_folder


def test_translate(phrasebook_model: Path) -> None:
    assert run("translate.py", phrasebook_model).count("\n") == 2


def test_many_targets(phrasebook_model: Path) -> None:
    lines = run("many_targets.py", phrasebook_model).splitlines()
    assert [line.split("\t")[0] for line in lines] == ["de", "en", "sw"]


def test_all_ways_to_translate(phrasebook_model: Path) -> None:
    lines = run("translating.py", phrasebook_model).splitlines()
    assert lines[0].startswith("['")
    *lines, _, copied, warning = lines
    assert [line.split()[0] for line in lines[-6:-4]] == ["de", "sw"]
    assert len(set(lines[-4:-1])) == 1
    assert copied.endswith(" 🎉']")
    assert "🎉 (U+1F389)" in warning


def test_end_to_end(tmp_path: Path) -> None:
    printed = run("end_to_end.py", *QUICK, f"data={tmp_path}/data", f"run={tmp_path}/run", "vocabulary.size=200")
    assert "zero_shot: BLEU" in printed


def test_a_custom_guidance_method(tmp_path: Path) -> None:
    """A method of one file and one line is trained, saved, loaded, evaluated and folded."""
    printed = run("custom_guidance.py", *QUICK, f"data={tmp_path}/data", f"run={tmp_path}/run", "vocabulary.size=200")
    assert "zero_shot: BLEU" in printed
    assert "no guidance left" in printed


def test_own_text_and_fine_tuning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the files unchanged except for a small model, on text in the layout they describe."""
    (tmp_path / "mytext").mkdir()
    for code, words in {"en": "one two three four", "de": "eins zwei drei vier", "sw": "moja mbili tatu nne"}.items():
        for split, number in (("train", 40), ("dev", 4), ("test", 4)):
            lines = (" ".join(words.split()[(i * j) % 4] + str(i % 7) for j in range(1, 5)) for i in range(number))
            (tmp_path / "mytext" / f"{split}.{code}").write_text("\n".join(lines) + "\n")
    monkeypatch.chdir(tmp_path)
    small = [
        "vocabulary.size=64",
        "model.width=16",
        "model.ffn_width=16",
        "training.max_steps=2",
        "training.device=cpu",
    ]
    experiment = read_experiment(EXAMPLES / "own_text.yaml", small)
    manyglot.prepare(experiment)
    model = manyglot.train(experiment).model_folder
    assert model == Path("runs/mytext/model")
    assert len(manyglot.evaluate(model, experiment.data, zero_shot=True).directions) == 6
    shutil.copytree("mytext", "newtext")
    for path in (tmp_path / "mytext").iterdir():
        if path.suffix == ".sw":
            shutil.copy(path, tmp_path / "newtext" / f"{path.stem}.rw")
    experiment = read_experiment(EXAMPLES / "fine_tuning.yaml", small[3:])
    manyglot.prepare(experiment)
    described = manyglot.describe(manyglot.train(experiment).model_folder)
    assert (described.languages, described.model["width"]) == (["de", "en", "rw", "sw"], 16)


def test_a_new_language(phrasebook_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "newtext").mkdir()
    for code, words in {"en": "one two three four", "rw": "rimwe kabiri gatatu kane"}.items():
        for split, number in (("train", 60), ("dev", 4)):
            lines = (" ".join(words.split()[(i * j) % 4] + str(i % 7) for j in range(1, 5)) for i in range(number))
            (tmp_path / "newtext" / f"{split}.{code}").write_text("\n".join(lines) + "\n")
    monkeypatch.chdir(tmp_path)
    text, quick = EXAMPLES / "new_language.yaml", ["training.max_steps=2", "training.device=cpu"]
    pack = manyglot.add_language(phrasebook_model, text, "new.pack", quick)
    assert manyglot.load(phrasebook_model, packs=[pack]).translate("one", to="rw", source="en")


def test_the_readme_shows_the_examples_as_they_are() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    shown = [
        line for line in (EXAMPLES / "translate.py").read_text("utf-8").splitlines() if line.startswith("import many")
    ]
    assert shown[0] in readme
    assert "examples/own_text.yaml" in readme


def test_the_readme_tree_names_every_folder() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    for folder in (ROOT / "src" / "manyglot").iterdir():
        if folder.is_dir() and folder.name != "__pycache__":
            assert f"{folder.name}/" in readme


def made_by(script: str, function: str) -> Any:
    """Return the result of a function of a script in docs/."""
    path = ROOT / "docs" / script
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(path.parent)  # as when it is run
        return runpy.run_path(str(path))[function]()


def test_the_page_of_settings_is_up_to_date() -> None:
    page = made_by("make_settings.py", "page")
    assert page == (ROOT / "docs" / "settings.md").read_text("utf-8"), "run python docs/make_settings.py"


def test_the_result_pages_match_the_stored_results() -> None:
    pages = {"page": ROOT / "docs" / "results" / "mix60.md", "readme": ROOT / "README.md"}
    for function, path in pages.items():
        made = made_by("results/mix60.py", function)
        assert made == path.read_text("utf-8"), "run python docs/results/mix60.py"


def test_a_report_is_made_from_the_stored_results(tmp_path: Path) -> None:
    runs = made_by("results/stored_results.py", "report_runs")
    assert runs[0].name == "Token_tgt", "the reference"
    assert all(len(run.evaluation.directions) == 118 + 3290 for run in runs)
    write_html_report(tmp_path / "report.html", runs)
    text = (tmp_path / "report.html").read_text("utf-8")
    assert all(f"<section id={name}>" in text for name in ("averages", "heatmap", "off_target", "similarities"))


def test_the_language_maps_of_the_results_are_plotted(tmp_path: Path, phrasebook_model: Path) -> None:
    languages, results = (
        runpy.run_path(str(ROOT / "docs" / "results" / f"{name}.py")) for name in ("languages", "stored_results")
    )
    languages["plot_maps"](tmp_path / "languages.svg")
    text = (tmp_path / "languages.svg").read_text("utf-8")
    assert text.count(">kab<") == text.count(">zh<") == 2 * len(languages["language_maps"]()) >= 4, (
        "on each plane and each tree"
    )
    about = {"languages": ["de", "en", "sw"]}
    assert results["similarities_by_method"](tmp_path, about) == {}
    assert results["similarities_by_method"](tmp_path, about | {"similarities": {"lee": [0.1], "laa": None}}) == {
        "lee": [0.1]
    }
    pairs_by_method = results["similarities_by_method"](phrasebook_model.parent, about)
    assert {method: len(pairs) for method, pairs in pairs_by_method.items()} == {"adapter": 3}


def test_the_picture_of_the_sites_is_up_to_date() -> None:
    picture = made_by("draw_sites.py", "sites_svg")
    assert picture == (ROOT / "docs" / "images" / "sites.svg").read_text("utf-8"), "run python docs/draw_sites.py"
