"""The commands as a user runs them: results on stdout, status on stderr, one line and exit code 2 for mistakes."""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

import manyglot
from manyglot.cli import exit_codes
from manyglot.config.experiment import Experiment
from manyglot.errors import StoppedByUser
from manyglot.folders import atomic_folder
from manyglot.model.model_folder import SETTINGS_END, seal_model
from tests.commands import mistake, run

COMMANDS = (
    "demo",
    "prepare",
    "train",
    "average",
    "plot",
    "translate",
    "evaluate",
    "compare",
    "report",
    "describe",
    "export",
)


def test_prepare_train_and_evaluate(config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, err = run(capsys, "prepare", config)
    assert "60 train, 8 dev, 8 test rows in 3 languages" in out
    assert f"train {config}" in err
    out, err = run(capsys, "train", config, "--set", "training.max_steps=4")
    assert out.strip() == str(tmp_path / "run" / "model")
    summary = err.splitlines()[-5:]
    assert summary[0].startswith("4 steps, the last in epoch 1 (counted from 1), ")
    assert summary[1].startswith("last loss ")
    assert ", dev loss " in summary[1]
    assert summary[2].startswith("highest loss into qa")
    assert summary[3].endswith(f" plot {tmp_path / 'run'}")
    assert summary[4].startswith("Next: ")
    assert summary[4].endswith(f"--data {tmp_path / 'data'} --zero-shot --output {tmp_path / 'run' / 'scores'}")
    out, err = run(
        capsys, "evaluate", out.strip(), "--data", tmp_path / "data", "--zero-shot", "--output", tmp_path / "scores"
    )
    assert "zero-shot" in out
    assert "BLEU nrefs:1" in out
    assert str(tmp_path / "scores" / "report.html") in out
    assert "translating 6 directions" in err


def test_json_is_the_only_output_on_stdout(
    config: Path, trained: Experiment, capsys: pytest.CaptureFixture[str]
) -> None:
    prepared = json.loads(run(capsys, "prepare", config, "--json")[0])
    assert prepared["rows"] == {"train": 60, "dev": 8, "test": 8}
    summary = json.loads(run(capsys, "train", config, "--json")[0])
    assert (summary["steps"], summary["best_metric"]) == (6, "dev_nll")
    assert summary["last_validation"].keys() == {
        "dev_nll",
        "dev_bleu",
        "dev_chrf",
        "zero_shot_language_accuracy",
        "zero_shot_chrf",
    }
    assert len(summary["highest_loss_targets"]) == 3
    model = summary["model"]
    scores = json.loads(run(capsys, "evaluate", model, "--data", prepared["data"], "--json")[0])
    assert len(scores["directions"]) == 4
    for what in (config, model):
        description = json.loads(run(capsys, "describe", what, "--json")[0])
        assert description["num_parameters"] == sum(description["parameters"].values())
        assert description["languages"] == ["qaa", "qab", "qac"]


def test_describe_prints_the_parts(config: Path, trained: Experiment, capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = run(capsys, "describe", config)
    assert "embedding" in out
    assert "token" in out
    assert "weights" not in out
    assert "weights     step 6 of 6, best by dev_nll" in run(capsys, "describe", trained.run / "model")[0]


def test_a_model_is_exported(trained: Experiment, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("ctranslate2")
    model, folder = trained.run / "model", tmp_path / "exported"
    out, _ = run(capsys, "export", model, "--target", "qaa,qab", "--quantization", "int8", "-o", folder)
    assert out == f"{folder}\n"
    assert list(json.loads((folder / "manyglot.json").read_text("utf-8"))["targets"]) == ["qaa", "qab"]
    assert "exists" in mistake(capsys, "export", model, "-o", folder)
    assert "Known: ctranslate2" in mistake(capsys, "export", model, "--to", "paper", "-o", tmp_path / "other")


def test_help_and_version(capsys: pytest.CaptureFixture[str]) -> None:
    overview, _ = run(capsys)
    assert overview == run(capsys, "--help")[0]
    assert all(command in overview for command in COMMANDS)
    assert "--install-completion" in overview
    for command in COMMANDS:
        assert "--help" in run(capsys, command, "--help")[0]
    assert run(capsys, "--version")[0] == f"manyglot {manyglot.__version__}\n"


def test_quiet_prints_results_and_errors_only(
    config: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MANYGLOT_QUIET", "")  # restored afterward
    out, err = run(capsys, "--quiet", "prepare", config)
    assert out
    assert err == ""
    assert "is not a setting" in mistake(capsys, "--quiet", "prepare", config, "--set", "sed=1")


def test_help_does_not_load_torch() -> None:
    code = "import sys; from manyglot.cli import main; main(['--help']); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True).returncode == 0


def test_mistakes_are_one_line_and_exit_code_2(
    trained: Experiment, config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], stdin: io.BytesIO
) -> None:
    model, data = trained.run / "model", trained.data
    assert "Did you mean 'train'" in mistake(capsys, "trian", config)
    assert "Missing argument" in mistake(capsys, "train")
    message = mistake(capsys, "train", config, "--fast")
    assert "No such option: --fast" in message
    assert message.endswith("Try 'manyglot train --help'.\n")
    assert "There is no file" in mistake(capsys, "train", tmp_path / "none.yaml")
    assert "Did you mean 'seed'" in mistake(capsys, "prepare", config, "--set", "sead=2")
    assert "Run `manyglot prepare` first" in mistake(capsys, "train", config)
    assert "not a manyglot model folder" in mistake(capsys, "translate", tmp_path, "--to", "qab")
    assert "does not exist" in mistake(capsys, "translate", tmp_path / "x", "--to", "qab")
    (tmp_path / "run" / "checkpoints").mkdir(parents=True)
    assert "is not finished" in mistake(capsys, "translate", tmp_path / "run" / "model", "--to", "qab")
    assert "run has no checkpoints. `manyglot train`" in mistake(capsys, "translate", tmp_path / "run", "--to", "qab")
    for wrong in (trained.run / "modle", trained.run / "checkpoints"):
        assert f"Did you mean {model}?" in mistake(capsys, "translate", wrong, "--to", "qab")
    missing = mistake(capsys, "translate", trained.run / "checkpoints" / "step-00000005", "--to", "qab")
    assert "step-00000005 does not exist. The run has step-0000000" in missing
    assert "not to a model folder" in mistake(capsys, "describe", model, "--set", "seed=1")
    assert "German (de) is not among the model's languages: qaa, qab, qac" in mistake(
        capsys, "translate", model, "--to", "de"
    )
    assert "Add --to de" in mistake(capsys, "translate", model)
    assert "decoding.beam_size" in mistake(capsys, "translate", model, "--to", "qab", "--beam-size", 0)
    assert "Cannot read" in mistake(capsys, "translate", model, tmp_path / "none.txt", "--to", "qab")
    not_prepared = mistake(capsys, "evaluate", model, "--data", tmp_path)
    assert "is not a prepared dataset" in not_prepared
    assert "or give the text with --test instead." in not_prepared
    assert "exists" in mistake(capsys, "evaluate", model, "--data", data, "--output", tmp_path)


def test_options_without_effect_are_refused(
    trained: Experiment, config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["translate", trained.run / "model", "--to", "qab"]
    assert "Add --format tsv." in mistake(capsys, *command, "--columns", "1,2")
    assert "--json means --output-format jsonl and contradicts tsv" in mistake(
        capsys, *command, "--json", "--output-format", "tsv"
    )
    assert "--json always has the examples" in mistake(capsys, "prepare", config, "--show-dropped", 3, "--json")
    demo = mistake(capsys, "demo", "--output", tmp_path / "demo", "--set", "run=elsewhere")
    assert "--set run=elsewhere: the demo keeps all its folders below --output" in demo


@pytest.mark.parametrize(
    ("guidance", "message"),
    [
        ("[{method: laaa}]", "guidance.method: 'laaa' is not known. Did you mean 'laa'?"),
        ("[{method: laa, sites: [dec.ffn]}]", "guidance.laa.sites: this method cannot act at dec.ffn. It can act at"),
        ("[{method: lee, sites: [true]}]", "guidance.lee.sites: this method cannot act at True. It can act at"),
        ("[{method: lee}, {method: lee}]", "guidance: lee is listed twice."),
        ("[]", "guidance: an empty list does not tell the model its target language. Add one of token, lee,"),
        ("null", "guidance should be a list of methods, such as [{method: laa}, {method: lee}]; got None."),
        ("{method: laa}", "guidance should be a list of methods, such as"),
        ("[laa]", "guidance: each entry needs a method, such as {method: token}; got 'laa'."),
        ("[{method: laa, sites: {dec.ffn: 1}}]", "guidance.laa.sites: this should be a list"),
        ("[{? [a] : b}]", "a key should be text, got a list"),
        ("[{method: random_laa}]", "guidance: random_laa alone does not tell the model its target language."),
    ],
)
def test_mistakes_in_guidance_are_one_line(
    guidance: str, message: str, config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert message in mistake(capsys, "describe", config, "--set", f"guidance={guidance}")


def test_a_model_folder_whose_guidance_was_changed_is_refused(
    trained: Experiment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(trained.run / "model", tmp_path / "model")
    path = tmp_path / "model" / "config.yaml"
    config = yaml.safe_load(path.read_text("utf-8"))
    config["guidance"] = [{"method": "laa", "init_gain": 1.0}]
    path.write_text(yaml.safe_dump(config) + SETTINGS_END, encoding="utf-8")
    assert "the section guidance was changed since the model was saved" in mistake(capsys, "describe", path.parent)
    seal_model(path.parent)
    assert "do not fit config.yaml: guidance.methods.laa.matrix_LDD is missing" in mistake(
        capsys, "describe", path.parent
    )


def test_a_data_language_unknown_to_the_model_is_named_and_left_out(
    trained: Experiment, config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(capsys, "prepare", config, "--set", "corpus.num_languages=4")
    result = manyglot.evaluate(trained.run / "model", tmp_path / "data", zero_shot=True)
    assert "The model does not know qad. Directions from and into them are left out." in capsys.readouterr().err
    assert {code for each in result.directions for code in (each.source, each.target)} == {"qaa", "qab", "qac"}


def test_data_without_two_languages_of_the_model_is_refused(
    trained: Experiment, config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(capsys, "prepare", config, "--set", "corpus={kind: phrasebook, languages: [de, en], train_rows: 200}")
    assert "The model does not know 'de', a language of" in mistake(
        capsys, "evaluate", trained.run / "model", "--data", tmp_path / "data"
    )


def test_an_interruption_prints_no_traceback(
    config: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from manyglot.workflows import prepare as workflow

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(workflow, "prepare", interrupted)
    _, err = run(capsys, "prepare", config, code=130)
    assert err.startswith("manyglot: interrupted")


def test_an_interrupted_dry_run_has_nothing_to_resume(
    config: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from manyglot.workflows import train as workflow

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(workflow, "dry_run", interrupted)
    assert run(capsys, "train", config, "--dry-run", code=130)[1] == "manyglot: interrupted.\n"


def test_a_stopped_training_has_its_own_exit_code(
    config: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from manyglot.workflows import train as workflow

    def stopped(*_: object) -> None:
        raise StoppedByUser("Stopped at step 3 and saved it. Run the same command to resume.")

    monkeypatch.setattr(workflow, "train", stopped)
    _, err = run(capsys, "train", config, code=exit_codes.STOPPED)
    assert exit_codes.STOPPED == os.EX_TEMPFAIL == 75
    assert err == "manyglot: Stopped at step 3 and saved it. Run the same command to resume.\n"


def test_sigterm_ends_a_command_in_one_line_and_cleans_up(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from manyglot.workflows import prepare as workflow

    def prepare(*_: object) -> None:
        with atomic_folder(tmp_path / "new"):
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(10)

    monkeypatch.setattr(workflow, "prepare", prepare)
    _, err = run(capsys, "prepare", config, code=exit_codes.TERMINATED)
    assert err == "manyglot: terminated. Finished parts are saved; run the same command again to resume.\n"
    assert not list(tmp_path.glob("new*"))
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_a_full_disk_is_one_line(
    config: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from manyglot.workflows import prepare as workflow

    def prepare(*_: object) -> None:
        Path("/dev/full").write_text("x", encoding="utf-8")

    monkeypatch.setattr(workflow, "prepare", prepare)
    assert "No space left on device; make room and run the same command again." in mistake(capsys, "prepare", config)


def test_output_is_utf8_whatever_the_locale(trained: Experiment, tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    command = [sys.executable, "-m", "manyglot", "evaluate", str(trained.run / "model"), "--data", str(trained.data)]
    result = subprocess.run(command, capture_output=True, env=environment)
    assert result.returncode == 0, result.stderr
    assert "xx→qaa" in result.stdout.decode("utf-8")


def test_a_misspelt_command_gets_a_suggestion(capsys: pytest.CaptureFixture[str]) -> None:
    assert "?. " not in mistake(capsys, "tarin")
