"""Evaluations that are interrupted, go on, or are shared among processes end as those that are not."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import manyglot
from manyglot.config.experiment import Experiment
from manyglot.corpus.sources import make_zero_shot_tests
from manyglot.decoding import native
from manyglot.decoding.translator import Translator
from manyglot.errors import ManyglotError
from manyglot.evaluation import translate
from manyglot.probing.representations import read_representations
from manyglot.reports.language_places import pairs_of
from manyglot.reports.page import read_run

IN_SMALL_BLOCKS = """
from manyglot import cli
from manyglot.decoding import native
from manyglot.evaluation import translate
native.LINES_AT_ONCE = translate.ENOUGH = 1
cli.main()
"""


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "LINES_AT_ONCE", 1)
    monkeypatch.setattr(translate, "ENOUGH", 1)


@pytest.fixture(scope="module")
def whole(trained: Experiment, tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("whole") / "scores"
    manyglot.evaluate(trained.run / "model", trained.data, zero_shot=True, output=output)
    return output


def test_the_report_has_a_map_of_the_languages(trained: Experiment, whole: Path) -> None:
    (representation,) = read_representations(trained.run / "model")
    about = json.loads((whole / "about.json").read_text("utf-8"))
    assert about["similarities"] == {"token": pairs_of(representation.values)}
    assert "Which languages are alike" in (whole / "report.html").read_text("utf-8")


def check_same(output: Path, whole: Path) -> None:
    assert {path.name for path in output.iterdir()} == {path.name for path in whole.iterdir()}
    for name in ("results.json", "translations.jsonl", "about.json"):
        assert (output / name).read_text("utf-8") == (whole / name).read_text("utf-8")


def test_an_interrupted_evaluation_goes_on(
    trained: Experiment,
    whole: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    calls, original = [], Translator.translate

    def counted(self: Translator, *arguments: object, **more: object) -> list[str]:
        calls.append(arguments)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return original(self, *arguments, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(Translator, "translate", counted)
    model, output = trained.run / "model", tmp_path / "scores"
    with pytest.raises(KeyboardInterrupt):
        manyglot.evaluate(model, trained.data, zero_shot=True, output=output)
    assert not output.exists(), "nothing half-written looks whole"
    manyglot.evaluate(model, trained.data, zero_shot=True, output=output)
    assert "2 of 6 directions are translated already." in capsys.readouterr().err
    assert len(calls) == 3 + 4
    check_same(output, whole)
    assert not (tmp_path / "scores.unfinished").exists()


@pytest.mark.parametrize("other", [{"overrides": ["decoding.beam=1"]}, {"zero_shot": True}])
def test_translations_of_other_settings_are_not_used(
    trained: Experiment,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    other: dict[str, Any],
) -> None:
    """Nor those among other sentences: a sentence's place among all may tell what is drawn at random."""

    def fail(*_: object) -> None:
        raise KeyboardInterrupt

    model, output = trained.run / "model", tmp_path / "scores"
    with monkeypatch.context() as broken:
        broken.setattr("manyglot.evaluation.evaluate.Evaluator.score", fail)
        with pytest.raises(KeyboardInterrupt):
            manyglot.evaluate(model, trained.data, output=output)
    manyglot.evaluate(model, trained.data, output=output, **other)
    assert "translated already" not in capsys.readouterr().err
    results = json.loads((output / "results.json").read_text("utf-8"))
    assert results["settings"]["decoding"]["beam"] == (1 if "overrides" in other else 2)


def test_processes_share_the_directions(trained: Experiment, whole: Path, tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    running = []
    command = [
        sys.executable,
        "-c",
        IN_SMALL_BLOCKS,
        "evaluate",
        str(trained.run / "model"),
        "--data",
        str(trained.data),
    ]
    for rank in range(2):
        places = {"WORLD_SIZE": 2, "RANK": rank, "LOCAL_RANK": rank, "MASTER_PORT": port, "MASTER_ADDR": "127.0.0.1"}
        environment = {**os.environ, **{key: str(value) for key, value in places.items()}}
        arguments = [*command, "--zero-shot", "--output", str(tmp_path / "scores")]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        running.append(subprocess.Popen(arguments, env=environment, text=True, **pipes))  # type: ignore[call-overload]
    told = [process.communicate(timeout=200) for process in running]
    assert [process.returncode for process in running] == [0, 0], told
    assert "translating 6 directions with 2 processes, the share of the first 24/24 done" in told[0][1]
    assert "zero-shot" in told[0][0]
    assert told[1][0] == "", "one of them speaks"
    check_same(tmp_path / "scores", whole)


def test_processes_need_a_folder(trained: Experiment, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ManyglotError, match="Give --output"):
        manyglot.evaluate(trained.run / "model", trained.data)


def test_joined_rows_are_other_test_text(trained: Experiment, whole: Path, tmp_path: Path) -> None:
    make_zero_shot_tests(trained.corpus, tmp_path / "joined", supervised=True)
    manyglot.evaluate(
        trained.run / "model", trained.data, zero_shot=True, output=tmp_path / "scores", test=tmp_path / "joined"
    )
    ours, theirs = (read_run("x", folder) for folder in (tmp_path / "scores", whole))
    sizes = {(d.direction, d.zero_shot, d.num_sentences) for d in theirs.evaluation.directions}
    assert {(d.direction, d.zero_shot, d.num_sentences) for d in ours.evaluation.directions} == sizes
    assert (ours.about["test"]["folder"], theirs.about["test"]) == (str(tmp_path / "joined"), None)
    assert "of that in training" in (tmp_path / "scores" / "report.html").read_text("utf-8")
    assert "of that in training" not in (whole / "report.html").read_text("utf-8")


def test_the_report_knows_the_model(whole: Path) -> None:
    about = json.loads((whole / "about.json").read_text("utf-8"))
    assert about["languages"] == ["qaa", "qab", "qac"]
    assert about["data"]["sentences"] == {"qaa": 60, "qab": 60, "qac": 60}
    assert about["curves"]["nll"][-1][0] == about["training"]["steps"] == 6
    page = (whole / "report.html").read_text("utf-8")
    for text in ("Model card", "Learning", "6 steps", "qaa", "LangAcc"):
        assert text in page
