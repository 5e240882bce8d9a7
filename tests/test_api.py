"""The Python API: every command is a documented function that takes plain paths and returns a readable result."""

from __future__ import annotations

import inspect
import logging
import pydoc
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import manyglot
from manyglot.errors import StoppedByUser
from manyglot.training.callbacks import CheckpointEvent, StepEvent, ValidationEvent
from manyglot.training.run_folder import STOP_MARKER_NAME
from tests.conftest import tiny_experiment
from tests.decoding.stub import stub

FUNCTIONS = [name for name in manyglot.__all__ if inspect.isfunction(getattr(manyglot, name))]


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The settings of a tiny experiment as a dictionary of plain values; paths are text."""
    return tiny_experiment(tmp_path_factory.mktemp("api")).to_dict()


@pytest.fixture(scope="module")
def trained(settings: dict[str, Any]) -> Any:
    manyglot.prepare(settings)
    return manyglot.train(settings)


def test_help_shows_every_command_on_the_first_screen() -> None:
    text = pydoc.plain(pydoc.render_doc(manyglot))
    first_screen = "\n".join(text.splitlines()[:40])
    for name in FUNCTIONS:
        assert f"{name}(" in first_screen or name == "read_experiment"
        assert f"    {name}(" in text


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_function_is_typed_and_documented(name: str) -> None:
    function = getattr(manyglot, name)
    signature = inspect.signature(function)
    assert inspect.getdoc(function)
    assert signature.return_annotation not in (inspect.Signature.empty, "None", "dict[str, Any]")
    assert all(parameter.annotation is not inspect.Parameter.empty for parameter in signature.parameters.values())


def test_results_are_readable(settings: dict[str, Any], trained: Any, tmp_path: Path) -> None:
    """The `repr` is short text, and the HTML of a notebook has the table or the picture."""
    scores = str(tmp_path / "scores")
    evaluation = manyglot.evaluate(trained, settings["data"], zero_shot=True, output=scores)
    results = {
        "subwords per word": manyglot.prepare(settings),
        "weights of step": trained,
        "zero-shot": evaluation,
        "Zero-shot BLEU": manyglot.compare({"ours": scores, "theirs": [scores]}, baseline="ours"),
        "parameters": manyglot.describe(trained),
    }
    for expected, result in results.items():
        assert expected in repr(result)
        assert len(repr(result)) < 5000
        assert "<table>" in result._repr_html_() or result is trained
    assert "<svg" in evaluation._repr_html_()
    assert "<svg" not in repr(evaluation)


def test_written_files_are_paths_that_a_notebook_shows(settings: dict[str, Any], trained: Any, tmp_path: Path) -> None:
    scores = tmp_path / "scores"
    manyglot.evaluate(trained, settings["data"], output=scores)
    report = manyglot.report(scores, str(tmp_path / "report.html"))
    assert Path(report).read_text("utf-8").startswith("<!doctype html>")
    assert "<iframe" in report._repr_html_()
    curves = manyglot.plot(trained.run, str(tmp_path / "curves.png"))
    assert "image/png" in curves._repr_html_()
    assert str(report) == str(tmp_path / "report.html")


def test_a_result_stands_for_its_model_folder(trained: Any) -> None:
    translated = manyglot.load(trained).with_text_options(warn=False).translate("w1 w2", to="qaa", source="qab")
    assert isinstance(translated, str)


def test_callbacks_receive_every_step_validation_and_checkpoint(tmp_path: Path) -> None:
    experiment = tiny_experiment(tmp_path, training={**TRAINING, "max_steps": 4})
    steps, validations, checkpoints = list[StepEvent](), list[ValidationEvent](), list[CheckpointEvent]()
    manyglot.prepare(experiment)
    manyglot.train(experiment, on_step=steps.append, on_validation=validations.append, on_checkpoint=checkpoints.append)
    assert [event.step for event in steps] == [1, 2, 3, 4]
    assert steps[0].loss > steps[-1].loss > 0
    assert steps[0].max_steps == 4
    assert 0 < steps[0].learning_rate < steps[1].learning_rate
    assert [event.step for event in validations] == [2, 4]
    assert "dev_nll" in validations[0].scores
    assert validations[0].is_best
    assert [event.folder.name for event in checkpoints] == ["step-00000002", "step-00000004"]
    assert checkpoints[-1].folder.is_dir()


@pytest.mark.parametrize("kind", ["on_step", "on_validation", "on_checkpoint"])
def test_a_callback_stops_training_which_resumes(tmp_path: Path, kind: str) -> None:
    experiment = tiny_experiment(tmp_path, training={**TRAINING, "max_steps": 6})
    manyglot.prepare(experiment)

    def stop(event: Any) -> None:
        event.request_stop()

    with pytest.raises(StoppedByUser, match=f"Stopped at step {1 if kind == 'on_step' else 2}"):
        manyglot.train(experiment, **{kind: stop})
    assert manyglot.train(experiment).training_info["steps"] == 6


def test_torchrun_does_not_resume_what_a_callback_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The processes end with an exception, so torchrun starts them again. A new torchrun resumes the run."""
    experiment = tiny_experiment(tmp_path, training={**TRAINING, "max_steps": 4})
    manyglot.prepare(experiment)
    monkeypatch.setenv("TORCHELASTIC_MAX_RESTARTS", "3")
    with pytest.raises(StoppedByUser, match="Stopped at step 1"):
        manyglot.train(experiment, on_step=lambda event: event.request_stop())
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "1")
    for _ in range(2):
        with pytest.raises(StoppedByUser, match=r"A callback has stopped this run\."):
            manyglot.train(experiment)
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "0")
    assert manyglot.train(experiment).training_info["steps"] == 4
    assert not (experiment.run / STOP_MARKER_NAME).exists()


def test_the_logger_receives_status_messages(settings: dict[str, Any], trained: Any, capsys: Any) -> None:
    records: list[logging.LogRecord] = []
    handler = logging.Handler()
    handler.emit = records.append  # type: ignore[method-assign]
    logging.getLogger("manyglot").addHandler(handler)
    try:
        manyglot.train(settings)
    finally:
        logging.getLogger("manyglot").removeHandler(handler)
    assert any("already trained" in record.getMessage() for record in records)
    assert "already trained" in capsys.readouterr().err


@pytest.mark.parametrize("folders", [[], {}, 5, [5], {"a": []}, "nowhere"])
@pytest.mark.parametrize("name", ["compare", "report", "probe", "plot"])
def test_nonsense_instead_of_folders_is_one_line(name: str, folders: Any) -> None:
    with pytest.raises(manyglot.ManyglotError):
        getattr(manyglot, name)(folders)


def test_a_callback_must_be_a_function(settings: dict[str, Any]) -> None:
    with pytest.raises(manyglot.ManyglotError, match=r"on_step` should be a function or None, got 'x' \(str\)"):
        manyglot.train(settings, on_step="x")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("load", (None,), r"load: `folder` should be text or a path, got None \(NoneType\)\."),
        ("prepare", (3,), "prepare: `experiment` should be Experiment or text or a path or a dictionary, got 3"),
        ("evaluate", ("m", "d", "yes"), "`zero_shot` should be True or False, got 'yes'"),
        (
            "compare",
            ({"a": [3]},),
            "`runs` should be text or a path or a list \\(of text or a path\\) or a dictionary, ",
        ),
        (
            "average",
            (["a", None],),
            "`run_or_checkpoints` should be text or a path or a list \\(of text or a path\\), ",
        ),
        ("translate", ("m", None), "`job` should be TranslationJob, got None"),
        ("describe", (3.5,), "`source` should be "),
        ("export", ("m", "out", [1]), "`targets` should be text or a list of text"),
    ],
)
def test_an_argument_of_the_wrong_type_is_one_line(name: str, arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(manyglot.ManyglotError, match=message):
        getattr(manyglot, name)(*arguments)


def test_an_unknown_argument_is_one_line() -> None:
    with pytest.raises(manyglot.ManyglotError, match=r"export has no argument 'target'\. Did you mean 'targets'\?"):
        manyglot.export("m", "out", target="de")  # type: ignore[call-arg]


def test_mistakes_of_a_translator_are_one_line() -> None:
    model: Any = stub()
    calls: dict[str, Callable[[], object]] = {
        "translate: `texts` should be a list of text, got None": lambda: model.translate(None, to="de"),
        "Texts must be str, but one is int": lambda: model.translate(["a", 3], to="de"),
        "`n` should be a whole number, got 2.5": lambda: model.translate_n_best(["a"], to="de", n=2.5),
        "with_text_options has no argument 'splt'. Did you mean 'split'?": lambda: model.with_text_options(
            splt="always"
        ),
        "`split` should be 'auto' or 'always' or 'never', got 3": lambda: model.with_text_options(split=3),
        "`max_chars` should be a whole number, got '5'": lambda: model.with_text_options(max_chars="5"),
        "`identify` should be": lambda: model.with_off_target_filter("py3langid"),
        "should return a list of 2 language codes": lambda: model.with_off_target_filter(
            lambda texts, targets: ["de"]
        ).translate(["a", "b"], to="de"),
        "Use translate_to_all": lambda: model.translate("a", to="all"),
        "Give a list of texts, not a string": lambda: model.translate_to_all("a"),
    }
    for message, call in calls.items():
        with pytest.raises(manyglot.ManyglotError, match=re.escape(message)):
            call()


def test_a_report_cannot_replace_a_folder(settings: dict[str, Any], trained: Any, tmp_path: Path) -> None:
    manyglot.evaluate(trained, settings["data"], output=tmp_path / "scores")
    for write in (
        lambda: manyglot.report(tmp_path / "scores", tmp_path),
        lambda: manyglot.plot(trained.run, tmp_path),
    ):
        with pytest.raises(manyglot.ManyglotError, match=r"Cannot write|unknown image format"):
            write()


def test_a_translator_shows_its_model(trained: Any) -> None:
    shown = repr(manyglot.load(trained))
    assert f"{Path(trained)}, step {trained.training_info['step']}, NativeEngine, into qaa, qab, qac" in shown


TRAINING = {"validate_every": 2, "checkpoint_every": 2, "warmup_steps": 10, "learning_rate": 1e-2, "device": "cpu"}
