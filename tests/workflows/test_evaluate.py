"""Interrupted, resumed and distributed evaluations give the same results as uninterrupted ones."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import manyglot
from manyglot.config.experiment import Experiment
from manyglot.corpus.readers import make_zero_shot_sets
from manyglot.decoding import native_engine
from manyglot.decoding.translator import Translator
from manyglot.distributed import DistributedContext
from manyglot.errors import ManyglotError
from manyglot.model.model_folder import load_model
from manyglot.probing.language_representations import load_representations
from manyglot.reports.html_language_map import lower_triangle_similarities
from manyglot.reports.html_report import load_report_run
from manyglot.workflows.evaluate import _check_same_step
from tests.commands import mistake

IN_SMALL_BLOCKS = """
from manyglot import cli
from manyglot.decoding import native_engine
native_engine.SHORT_BLOCK_PARAMETERS, native_engine.MIN_SHORT_BLOCK_SIZE = 1, 4
cli.main()
"""


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native_engine, "SHORT_BLOCK_PARAMETERS", 1)
    monkeypatch.setattr(native_engine, "MIN_SHORT_BLOCK_SIZE", 7)


@pytest.fixture(scope="module")
def uninterrupted(trained: Experiment, tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("uninterrupted") / "scores"
    manyglot.evaluate(trained.run / "model", trained.data, zero_shot=True, output=output)
    return output


def test_the_report_has_a_map_of_the_languages(trained: Experiment, uninterrupted: Path) -> None:
    (representation,) = load_representations(trained.run / "model")
    about = json.loads((uninterrupted / "about.json").read_text("utf-8"))
    assert about["similarities"] == {"token": lower_triangle_similarities(representation.values)}
    assert "Language similarity" in (uninterrupted / "report.html").read_text("utf-8")


def check_same(output: Path, uninterrupted: Path) -> None:
    assert {path.name for path in output.iterdir()} == {path.name for path in uninterrupted.iterdir()}
    for name in ("results.json", "translations.jsonl", "about.json"):
        assert (output / name).read_text("utf-8") == (uninterrupted / name).read_text("utf-8")


def test_an_interrupted_evaluation_resumes(
    trained: Experiment,
    uninterrupted: Path,
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
    assert not output.exists(), "a partial result must not look complete"
    manyglot.evaluate(model, trained.data, zero_shot=True, output=output)
    assert "14 of 48 sentences are already translated." in capsys.readouterr().err
    assert len(calls) == 3 + 5
    check_same(output, uninterrupted)
    assert not (tmp_path / "scores.unfinished").exists()


@pytest.mark.parametrize("other", [{"overrides": ["decoding.beam_size=1"]}, {"zero_shot": True}])
def test_cached_translations_of_other_settings_are_not_used(
    trained: Experiment,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    other: dict[str, Any],
) -> None:
    """Nor are those of other test sentences, because the index of a sentence seeds its sampling."""

    def fail(*_: object) -> None:
        raise KeyboardInterrupt

    model, output = trained.run / "model", tmp_path / "scores"
    with monkeypatch.context() as broken:
        broken.setattr("manyglot.evaluation.evaluator.Evaluator.score", fail)
        with pytest.raises(KeyboardInterrupt):
            manyglot.evaluate(model, trained.data, output=output)
    manyglot.evaluate(model, trained.data, output=output, **other)
    assert "translated already" not in capsys.readouterr().err
    results = json.loads((output / "results.json").read_text("utf-8"))
    assert results["settings"]["decoding"]["beam_size"] == (1 if "overrides" in other else 2)


def test_processes_divide_the_directions(trained: Experiment, uninterrupted: Path, tmp_path: Path) -> None:
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
    outputs = [process.communicate(timeout=200) for process in running]
    assert [process.returncode for process in running] == [0, 0], outputs
    assert "translating 6 directions with 2 processes (share of the first) 24/24 done" in outputs[0][1]
    assert "zero-shot" in outputs[0][0]
    assert outputs[1][0] == "", "only the main process prints"
    check_same(tmp_path / "scores", uninterrupted)


def test_several_processes_must_evaluate_the_same_step(trained: Experiment) -> None:
    class OtherMain(DistributedContext):
        """The main process has found a later checkpoint of a run in training."""

        def broadcast(self, value: float) -> float:
            return value + 1

    model = load_model(trained.run / "model")
    _check_same_step(model, DistributedContext(torch.device("cpu")))
    with pytest.raises(ManyglotError, match="found different checkpoints"):
        _check_same_step(model, OtherMain(torch.device("cpu")))


def test_a_checkpoint_has_the_learning_curves_up_to_its_step(trained: Experiment, tmp_path: Path) -> None:
    checkpoint = sorted((trained.run / "checkpoints").iterdir())[0]
    manyglot.evaluate(checkpoint, trained.data, output=tmp_path / "scores")
    about = json.loads((tmp_path / "scores" / "about.json").read_text("utf-8"))
    assert about["curves"]["nll"][-1][0] == about["training"]["steps"] == 4


def test_a_damaged_log_costs_only_the_learning_curves(
    trained: Experiment, uninterrupted: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(trained.run, tmp_path / "run")
    (tmp_path / "run" / "log.jsonl").write_bytes(b"\xff{\0\n" * 9)
    output = tmp_path / "scores"
    manyglot.evaluate(tmp_path / "run" / "model", trained.data, zero_shot=True, output=output)
    assert "log.jsonl: line 1 and 8 other lines are damaged" in capsys.readouterr().err
    ours, theirs = (load_report_run("x", folder) for folder in (output, uninterrupted))
    assert ours.evaluation.directions == theirs.evaluation.directions
    assert "its log.jsonl was missing or damaged" in (output / "report.html").read_text("utf-8")
    assert "its log.jsonl was missing or damaged" not in (uninterrupted / "report.html").read_text("utf-8")


@pytest.mark.parametrize("content", [b"line\0\n", b"a" * 2**22 + b"b", None])
def test_damaged_test_text_is_one_line(
    trained: Experiment, tmp_path: Path, content: bytes | None, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "test.qaa").write_text("kihumi\n")
    (tmp_path / "test.qab").write_bytes(content) if content else os.mkfifo(tmp_path / "test.qab")
    command = ("evaluate", trained.run / "model", "--data", trained.data, "--test", tmp_path)
    assert "test.qab" in mistake(capsys, *command)


@pytest.mark.parametrize(("content", "reason"), [(None, "Cannot read"), (b"PK", "is not a fastText model")])
def test_a_damaged_identifier_is_one_line(
    trained: Experiment, tmp_path: Path, content: bytes | None, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    model = tmp_path / "lid.bin"
    if content is not None:
        model.write_bytes(content)
    setting = f"evaluation.language_identifier=fasttext:{model}"
    message = mistake(capsys, "evaluate", trained.run / "model", "--data", trained.data, "--set", setting)
    assert str(model) in message
    assert reason in message


def test_several_processes_need_an_output_folder(trained: Experiment, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ManyglotError, match="Give --output"):
        manyglot.evaluate(trained.run / "model", trained.data)


def test_other_test_text_replaces_the_test_split(trained: Experiment, uninterrupted: Path, tmp_path: Path) -> None:
    make_zero_shot_sets(trained.corpus, tmp_path / "joined", include_supervised=True)
    manyglot.evaluate(
        trained.run / "model", trained.data, zero_shot=True, output=tmp_path / "scores", test=tmp_path / "joined"
    )
    ours, theirs = (load_report_run("x", folder) for folder in (tmp_path / "scores", uninterrupted))
    sizes = {(d.direction, d.zero_shot, d.num_sentences) for d in theirs.evaluation.directions}
    assert {(d.direction, d.zero_shot, d.num_sentences) for d in ours.evaluation.directions} == sizes
    assert (ours.system_facts["test"]["folder"], theirs.system_facts["test"]) == (str(tmp_path / "joined"), None)
    assert "test sentences in training" in (tmp_path / "scores" / "report.html").read_text("utf-8")
    assert "test sentences in training" not in (uninterrupted / "report.html").read_text("utf-8")


def test_the_report_has_facts_about_the_system(uninterrupted: Path) -> None:
    about = json.loads((uninterrupted / "about.json").read_text("utf-8"))
    assert about["languages"] == ["qaa", "qab", "qac"]
    assert about["data"]["sentences"] == {"qaa": 60, "qab": 60, "qac": 60}
    assert about["curves"]["nll"][-1][0] == about["training"]["steps"] == 6
    page = (uninterrupted / "report.html").read_text("utf-8")
    for text in ("Systems", "Learning", "6 steps", "qaa", "LangAcc"):
        assert text in page


def test_damaged_test_text_is_never_translated(
    trained: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(trained.data, tmp_path / "data")
    path = tmp_path / "data" / "text" / "test.qab"
    path.write_bytes(path.read_bytes().replace(b"e", b"a", 1))
    monkeypatch.setattr("manyglot.workflows.evaluate.translate_evaluation_set", None)
    with pytest.raises(ManyglotError, match=rf"{path} is damaged \(its checksum is wrong\)"):
        manyglot.evaluate(trained.run / "model", tmp_path / "data")


def test_data_and_test_text_may_name_languages_in_another_style_than_the_model(
    trained: Experiment, uninterrupted: Path, tmp_path: Path
) -> None:
    for path in (trained.data / "text").iterdir():
        (tmp_path / f"{path.name}-Latn").write_bytes(path.read_bytes())
    corpus = {"kind": "multiway", "path": str(tmp_path), "central_language": "qaa"}
    values = trained.to_dict() | {"corpus": corpus, "data": str(tmp_path / "data"), "run": str(tmp_path / "run")}
    manyglot.prepare(values)
    expected = {
        (f"{d.direction.source}-Latn", f"{d.direction.target}-Latn", d.zero_shot): d.bleu
        for d in load_report_run("x", uninterrupted).evaluation.directions
    }
    for test in (None, trained.data / "text"):
        evaluation = manyglot.evaluate(trained.run / "model", tmp_path / "data", True, test=test)
        assert {(*d.direction, d.zero_shot): d.bleu for d in evaluation.directions} == expected
        assert evaluation.central_language == "qaa-Latn"
