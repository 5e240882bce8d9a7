"""`load` opens model folders and exports, which translate equally."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import manyglot
from manyglot.config.experiment import Experiment
from manyglot.decoding.ctranslate2.engine import CTranslate2Engine
from manyglot.decoding.native_engine import NativeEngine
from manyglot.errors import FolderError, LanguageError, ManyglotError, SettingsError
from manyglot.exporters.ctranslate2 import export_to_ctranslate2
from manyglot.model.model_folder import load_model

TEXTS = ["kihumi faku zezu", "", "duka"]


@pytest.fixture(scope="module")
def exported(trained: Experiment, tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("ctranslate2")
    folder = tmp_path_factory.mktemp("exports") / "some"
    export_to_ctranslate2(load_model(trained.run / "model"), folder, ["qab", "qac"], None)
    return folder


def test_load_chooses_the_engine_by_the_folder(trained: Experiment, exported: Path) -> None:
    native, other = manyglot.load(trained.run / "model"), manyglot.load(exported)
    assert isinstance(native.engine, NativeEngine)
    assert isinstance(other.engine, CTranslate2Engine)
    assert (list(native.languages), list(other.languages)) == (["qaa", "qab", "qac"], ["qab", "qac"])
    assert native.translate(TEXTS, to="qac") == other.translate(TEXTS, to="qac")
    assert native.translate_to_all(TEXTS, ["qab", "qac"]) == other.translate_to_all(TEXTS)
    ours, theirs = (model.translate_n_best(TEXTS, "qab", n=3)[0] for model in (native, other))
    assert [each.text for each in ours] == [each.text for each in theirs]
    assert [each.score for each in ours] == pytest.approx([each.score for each in theirs], abs=1e-4)
    with pytest.raises(LanguageError):
        other.translate(TEXTS, to="qaa")


def test_an_unsuitable_engine_is_rejected_with_advice(trained: Experiment, exported: Path) -> None:
    model = trained.run / "model"
    assert isinstance(manyglot.load(exported, engine="ctranslate2").engine, CTranslate2Engine)
    with pytest.raises(
        FolderError, match=rf"Export the model in it first: `manyglot export {model} -o FOLDER --target LANGUAGES`"
    ):
        manyglot.load(model, engine="ctranslate2")
    with pytest.raises(FolderError, match="is an export for CTranslate2"):
        manyglot.load(exported, engine="native")
    with pytest.raises(SettingsError, match=r"'ctranslate' is not known\. Did you mean 'ctranslate2'"):
        manyglot.load(model, engine="ctranslate")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (
            {"precision": "bfloat16"},
            r"decoding\.precision: an export computes in its stored type\. Export the model",
        ),
        (
            {"temperature": 1.0},
            r"decoding\.temperature: exports do not support sampling\. Use the model folder",
        ),
        ({"beam_size": 2, "top_k": 3}, r"decoding\.top_k"),
    ],
)
def test_settings_without_effect_on_an_export_are_rejected(exported: Path, change: dict[str, Any], reason: str) -> None:
    model = manyglot.load(exported)
    with pytest.raises(SettingsError, match=reason):
        model.with_settings(**change)
    assert model.with_settings(beam_size=1, precision="auto", temperature=None).settings.beam_size == 1


def test_correcting_off_target_outputs_needs_known_languages(trained: Experiment) -> None:
    with pytest.raises(ManyglotError, match="py3langid knows none"):
        manyglot.load(trained.run / "model", correct_off_target=True)


def test_exports_are_used_without_torch(trained: Experiment, exported: Path) -> None:
    """Both ways to use an export, in a process in which torch cannot be imported."""
    code = f"""
import sys

sys.modules["torch"] = None
import manyglot
from manyglot.cli import main

print(manyglot.load({str(exported)!r}).translate({TEXTS!r}, to="qac"))
main(["translate", {str(exported)!r}, "--to", "qac", "--correct-off-target", "--langid-data", {str(trained.data)!r}])
"""
    command, stdin = [sys.executable, "-c", code], "\n".join(TEXTS) + "\n"
    ended = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=100, check=False)
    assert ended.returncode == 0, ended.stderr
    outputs = manyglot.load(exported).translate(TEXTS, to="qac")
    assert ended.stdout.splitlines() == [str(outputs), *outputs]


def test_languages_are_identified_without_torch() -> None:
    code = """
import sys

sys.modules["torch"] = None
from manyglot.corpus.languages import Languages
from manyglot.langid.loading import load_identifier

print(load_identifier("py3langid", Languages(["de", "en"])).identify("Der Zug nach Berlin fährt heute leider nicht."))
"""
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "de\n"


def test_a_folder_of_several_exports_is_rejected(exported: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        shutil.copytree(exported, tmp_path / "exports" / name)
    with pytest.raises(FolderError, match=r"exports holds several exports for the same languages\. Give one"):
        CTranslate2Engine.load(tmp_path / "exports")
