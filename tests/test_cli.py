"""The commands as a user runs them: results on stdout, the rest on stderr, one line and exit code 2 for mistakes."""

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
from manyglot.cli import main
from manyglot.config import Experiment
from manyglot.folders import held

COMMANDS = ("demo", "prepare", "train", "plot", "translate", "evaluate", "compare", "report", "describe", "export")


def run(capsys: pytest.CaptureFixture[str], *arguments: object, code: int = 0) -> tuple[str, str]:
    """Run a command in this process; return what it wrote to stdout and to stderr."""
    try:
        main([str(argument) for argument in arguments])
        exit_code = 0
    except SystemExit as stop:
        exit_code = int(stop.code or 0)
    written = capsys.readouterr()
    assert exit_code == code, written.err
    return written.out, written.err


def mistake(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """Run a command that is refused; return its one line."""
    out, err = run(capsys, *arguments, code=2)
    assert out == ""
    assert err.startswith("manyglot: ")
    assert err.count("\n") == 1, err
    return err


@pytest.fixture
def config(trained: Experiment, tmp_path: Path) -> Path:
    path = tmp_path / "experiment.yaml"
    values = trained.resolved() | {"data": str(tmp_path / "data"), "run": str(tmp_path / "run")}
    path.write_text(yaml.safe_dump(values), encoding="utf-8")
    return path


@pytest.fixture
def stdin(monkeypatch: pytest.MonkeyPatch) -> io.BytesIO:
    stream = io.BytesIO()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(stream))
    return stream


def test_the_road_from_text_to_scores(config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, err = run(capsys, "prepare", config)
    assert "60 train, 8 dev, 8 test rows in 3 languages" in out
    assert f"train {config}" in err
    out, err = run(capsys, "train", config, "--set", "training.max_steps=4")
    assert out.strip() == str(tmp_path / "run" / "model")
    summary = err.splitlines()[-5:]
    assert summary[0].startswith("4 steps to epoch 1, ")
    assert summary[1].startswith("last loss ")
    assert ", dev loss " in summary[1]
    assert summary[2].startswith("highest loss into qa")
    assert summary[3].endswith(f" plot {tmp_path / 'run'}")
    assert summary[4].startswith("Next: ")
    out, err = run(
        capsys, "evaluate", out.strip(), "--data", tmp_path / "data", "--zero-shot", "--output", tmp_path / "scores"
    )
    assert "zero-shot" in out
    assert "BLEU nrefs:1" in out
    assert str(tmp_path / "scores" / "report.html") in out
    assert "translating 6 directions" in err


def test_json_is_all_there_is_on_stdout(config: Path, trained: Experiment, capsys: pytest.CaptureFixture[str]) -> None:
    prepared = json.loads(run(capsys, "prepare", config, "--json")[0])
    assert prepared["rows"] == {"train": 60, "dev": 8, "test": 8}
    told = json.loads(run(capsys, "train", config, "--json")[0])
    assert (told["steps"], told["best_by"]) == (6, "dev_bleu")
    assert told["dev"].keys() == {"dev_nll", "dev_bleu", "dev_chrf", "zero_shot_language_accuracy"}
    assert len(told["worst"]) == 3
    model = told["model"]
    scores = json.loads(run(capsys, "evaluate", model, "--data", prepared["data"], "--json")[0])
    assert len(scores["directions"]) == 4
    for what in (config, model):
        description = json.loads(run(capsys, "describe", what, "--json")[0])
        assert description["num_parameters"] == sum(description["parameters"].values())
        assert description["languages"] == ["qaa", "qab", "qac"]


def test_a_dry_run_shows_the_plan(
    config: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run(capsys, "prepare", config)
    out, _ = run(capsys, "train", config, "--dry-run")
    assert "4 directions, 240 sentence pairs" in out
    assert "an estimate from" in out
    assert "run: a new run" in out
    assert "Seen more than 50 times" not in out
    shown = json.loads(run(capsys, "train", config, "--dry-run", "--json", "--set", "training.max_steps=9999")[0])
    assert shown["training"]["steps"] == shown["training"]["left"] == 9999
    assert shown["warnings"][0].startswith("Seen more than 50 times: ")
    config.with_name("run").mkdir()
    (config.with_name("run") / "thesis.txt").write_text("years of work")
    out, err = run(capsys, "train", config, "--dry-run", code=2)
    assert "refused: " in out
    assert "holds something else" in err
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert "Start it without torchrun." in mistake(capsys, "train", config, "--dry-run")


def test_translate_reads_stdin_and_files(
    trained: Experiment, tmp_path: Path, stdin: io.BytesIO, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "kihumi faku zezu\n\nduka\n"
    (tmp_path / "in.txt").write_text(text)
    stdin.write(text.encode())
    stdin.seek(0)
    model = trained.run / "model"
    from_stdin, _ = run(capsys, "translate", model, "--to", "qab")
    from_file, _ = run(capsys, "translate", model, tmp_path / "in.txt", "--to", "qab")
    assert from_stdin == from_file
    stdin.seek(0)
    assert run(capsys, "translate", model, "-", "-o", "-", "--to", "qab")[0] == from_file
    lines = from_file.split("\n")
    assert len(lines) == 4
    assert lines[1] == ""
    as_json, _ = run(capsys, "translate", model, tmp_path / "in.txt", "--to", "qab", "--json", "--beam", "1")
    assert [json.loads(line)["text"] for line in as_json.splitlines()] == ["kihumi faku zezu", "", "duka"]


def test_translate_writes_files_and_tables(
    trained: Experiment, tmp_path: Path, stdin: io.BytesIO, capsys: pytest.CaptureFixture[str]
) -> None:
    model, text = trained.run / "model", tmp_path / "in.txt"
    text.write_text("faku\nduka\n")
    out, err = run(capsys, "translate", model, text, text, "--to", "qab,qac", "-o", tmp_path / "out.txt", "--beam", 3)
    assert (out, err) == ("", "")
    assert [len((tmp_path / f"out.{code}.txt").read_text().splitlines()) for code in ("qab", "qac")] == [4, 4]
    options = ("--n-best", 2, "--scores", "--max-length", 3, "--length-penalty", 0, "--device", "cpu")
    out, _ = run(capsys, "translate", model, text, "--to", "qab", "--output-format", "jsonl", *options)
    for line in map(json.loads, out.splitlines()):
        assert line["score"] > line["alternatives"][0]["score"]
    stdin.write(b"x\tfaku\tqac\ny\tduka\t\n")
    stdin.seek(0)
    out, _ = run(capsys, "translate", model, "--format", "tsv", "--columns", "2,3", "--to", "qab", "--engine", "native")
    assert [line.split("\t")[:2] for line in out.splitlines()[1:]] == [["faku", "qac"], ["duka", "qab"]]


def test_lines_that_cannot_be_translated_are_empty_and_told_by_the_exit_code(
    trained: Experiment, stdin: io.BytesIO, capsys: pytest.CaptureFixture[str]
) -> None:
    stdin.write(b"faku\n\xff\xfe\nduka\n")
    stdin.seek(0)
    out, err = run(capsys, "translate", trained.run / "model", "--to", "qab", code=1)
    assert [bool(line) for line in out.splitlines()] == [True, False, True]
    assert err == "manyglot: line 2 of stdin is not UTF-8; convert the text first.\n"


def test_translate_with_an_export(
    trained: Experiment, tmp_path: Path, stdin: io.BytesIO, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("ctranslate2")
    model, folder, text = trained.run / "model", tmp_path / "exported", tmp_path / "in.txt"
    text.write_text("faku\nduka\n")
    run(capsys, "export", model, "-o", folder)
    native, _ = run(capsys, "translate", model, text, "--to", "qab")
    assert run(capsys, "translate", folder, text, "--to", "qab") == (native, "")
    assert "manyglot export" in mistake(capsys, "translate", model, text, "--to", "qab", "--engine", "ctranslate2")
    for option in (("--precision", "bfloat16"), ("--temperature", 1)):
        assert "an export " in mistake(capsys, "translate", folder, text, "--to", "qab", *option)


def test_the_language_of_outputs_is_checked(
    trained: Experiment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, text = trained.run / "model", tmp_path / "in.txt"
    text.write_text("kihumi faku zezu\n" * 3)
    command = ["translate", model, text, "--to", "qab", "--json"]
    assert "knows none of the model's languages. With --data" in mistake(capsys, *command, "--check-language")
    assert "Give both" in mistake(capsys, *command, "--data", trained.data)
    out, err = run(capsys, *command, "--check-language", "--data", trained.data)
    on_target = [json.loads(line).get("on_target") for line in out.splitlines()]
    assert len(set(on_target)) == 1
    assert on_target[0] is not None
    assert on_target[0] or "3 of 3 outputs not in qab: 0 replaced by an alternative, 3 marked" in err


def test_describe_prints_the_parts(config: Path, trained: Experiment, capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = run(capsys, "describe", config)
    assert "embedding" in out
    assert "token" in out
    assert "weights" not in out
    assert "weights     of step 6 of 6, best by dev_bleu" in run(capsys, "describe", trained.run / "model")[0]


def test_a_model_is_exported(trained: Experiment, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("ctranslate2")
    model, folder = trained.run / "model", tmp_path / "exported"
    out, _ = run(capsys, "export", model, "--target", "qaa,qab", "--quantization", "int8", "-o", folder)
    assert out == f"{folder}\n"
    assert list(json.loads((folder / "manyglot.json").read_text("utf-8"))["targets"]) == ["qaa", "qab"]
    assert "exists" in mistake(capsys, "export", model, "-o", folder)
    assert "Known: ctranslate2" in mistake(capsys, "export", model, "--to", "paper", "-o", tmp_path / "other")


def test_a_corpus_is_looked_at_before_it_is_prepared(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, _ = run(capsys, "corpus", "inspect", config)
    assert "60 train, 8 dev, 8 test rows; 240 training pairs in 4 directions" in out
    out, _ = run(capsys, "corpus", "inspect", config, "--json")
    assert json.loads(out)["pairs"]["train"]["qaa>qab"] == 60
    picture = tmp_path / "shares.svg"
    before, _ = run(capsys, "corpus", "preview", config, "-T", "none", "-T", "5", "--output", picture, "--json")
    assert [row["pairs"] for row in json.loads(before)["directions"]] == [60] * 4
    assert picture.read_text("utf-8").startswith("<svg")
    run(capsys, "prepare", config)
    out, _ = run(capsys, "corpus", "preview", config)
    assert "share, T = 5" in out
    assert "│ qab qab" in out
    assert "takes a number above 0 or none" in mistake(capsys, "corpus", "preview", config, "-T", "warm")
    weights = ("--set", "batches.weights={qaa>qab: 3}")
    out, _ = run(capsys, "corpus", "preview", config, *weights, "--json")
    assert [row["share"]["weights"] for row in json.loads(out)["directions"]] == [1 / 2, 1 / 6, 1 / 6, 1 / 6]
    other = ("--set", "vocabulary.size=99")
    assert "was prepared from something else" in mistake(capsys, "corpus", "preview", config, *other)


def test_the_curves_of_runs_are_drawn(trained: Experiment, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    other = tmp_path / "a" / trained.run.name
    other.mkdir(parents=True)
    shutil.copy(trained.run / "log.jsonl", other)
    picture = tmp_path / "curves.svg"
    assert run(capsys, "plot", trained.run, trained.run, "-o", picture)[0] == f"{picture}\n"
    assert str(trained.run) not in picture.read_text("utf-8")
    run(capsys, "plot", trained.run, other, "-o", picture, "--tokens")
    drawn = picture.read_text("utf-8")
    assert all(text in drawn for text in ("target tokens", "qab", str(trained.run), str(other)))


def test_runs_that_cannot_be_drawn_are_told(
    trained: Experiment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert f"Did you mean {trained.run}?" in mistake(capsys, "plot", trained.run / "model")
    assert "nothing has no log.jsonl. Give the folder of a run." in mistake(capsys, "plot", tmp_path / "nothing")
    assert ".png, .svg or .pdf" in mistake(capsys, "plot", trained.run, "-o", tmp_path / "curves.gif")
    (tmp_path / "log.jsonl").touch()
    assert "log.jsonl has no line of training yet" in mistake(capsys, "plot", tmp_path)
    (tmp_path / "log.jsonl").write_text('{"step": 1}\noops\n')
    assert "log.jsonl, line 2 is damaged" in mistake(capsys, "plot", tmp_path)


def test_weights_are_checked_before_the_text_is_prepared(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = mistake(capsys, "prepare", config, "--set", "batches.weights={qab>qac: 3}")
    assert "batches.weights: qab>qac is not trained on." in line


def test_a_run_that_is_being_trained_is_left_alone(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(capsys, "prepare", config)
    with held(config.with_name("run")):
        assert "Another process is writing" in mistake(capsys, "train", config)
    assert list(config.with_name("run").iterdir()) == []


@pytest.mark.parametrize("most", [3_000, 12_000, 40_000])
def test_a_full_disk_is_told_and_the_preparation_goes_on(
    most: int, config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["prepare", str(config), "--set", "corpus.train_rows=900"]
    limited = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({most}, {most}))"
    code = f"{limited}; from manyglot.cli import main; main({command!r})"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100, check=False)
    last = ended.stderr.splitlines()[-1]
    assert (ended.returncode, last.startswith("manyglot: Cannot write ")) == (2, True), ended.stderr
    assert "Traceback" not in ended.stderr
    run(capsys, *command)


def test_help_and_version(capsys: pytest.CaptureFixture[str]) -> None:
    overview, _ = run(capsys)
    assert overview == run(capsys, "--help")[0]
    assert all(command in overview for command in COMMANDS)
    assert "--install-completion" in overview
    for command in COMMANDS:
        assert "--help" in run(capsys, command, "--help")[0]
    assert run(capsys, "--version")[0] == f"manyglot {manyglot.__version__}\n"


def test_help_does_not_load_torch() -> None:
    code = "import sys; from manyglot.cli import main; main(['--help']); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True).returncode == 0


def test_mistakes_are_one_line_and_exit_code_2(
    trained: Experiment, config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], stdin: io.BytesIO
) -> None:
    model, data = trained.run / "model", trained.data
    assert "Did you mean 'train'" in mistake(capsys, "trian", config)
    assert "Missing argument" in mistake(capsys, "train")
    told = mistake(capsys, "train", config, "--fast")
    assert "No such option: --fast" in told
    assert told.endswith("Try 'manyglot train --help'.\n")
    assert "There is no file" in mistake(capsys, "train", tmp_path / "none.yaml")
    assert "Did you mean 'seed'" in mistake(capsys, "prepare", config, "--set", "sead=2")
    assert "Run `manyglot prepare` first" in mistake(capsys, "train", config)
    assert "not a manyglot model folder" in mistake(capsys, "translate", tmp_path, "--to", "qab")
    assert "does not exist" in mistake(capsys, "translate", tmp_path / "x", "--to", "qab")
    (tmp_path / "run" / "checkpoints").mkdir(parents=True)
    assert "is not finished" in mistake(capsys, "translate", tmp_path / "run" / "model", "--to", "qab")
    assert f"Did you mean {model}?" in mistake(capsys, "translate", trained.run, "--to", "qab")
    assert "is as it is" in mistake(capsys, "describe", model, "--set", "seed=1")
    assert "German (de) is not among the model's languages: qaa, qab, qac" in mistake(
        capsys, "translate", model, "--to", "de"
    )
    assert "such as --to de" in mistake(capsys, "translate", model)
    assert "decoding.beam" in mistake(capsys, "translate", model, "--to", "qab", "--beam", 0)
    assert "Cannot read" in mistake(capsys, "translate", model, tmp_path / "none.txt", "--to", "qab")
    assert "not a prepared dataset" in mistake(capsys, "evaluate", model, "--data", tmp_path)
    assert "exists" in mistake(capsys, "evaluate", model, "--data", data, "--output", tmp_path)


def test_options_without_effect_are_refused(
    trained: Experiment, config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["translate", trained.run / "model", "--to", "qab"]
    assert "Add --format tsv." in mistake(capsys, *command, "--columns", "1,2")
    assert "--json is --output-format jsonl, and tsv is" in mistake(
        capsys, *command, "--json", "--output-format", "tsv"
    )
    assert "--json has the examples anyway" in mistake(capsys, "prepare", config, "--show-dropped", 3, "--json")
    demo = mistake(capsys, "demo", "--output", tmp_path / "demo", "--set", "run=elsewhere")
    assert "--set run=elsewhere: the demo has all its folders below --output" in demo


@pytest.mark.parametrize(
    ("guidance", "message"),
    [
        ("[{method: laaa}]", "guidance.method: 'laaa' is not known. Did you mean 'laa'?"),
        ("[{method: laa, sites: [dec.ffn]}]", "guidance.laa.sites: this method cannot act at dec.ffn. It can act at"),
        ("[{method: lee, sites: [true]}]", "guidance.lee.sites: this method cannot act at True. It can act at"),
        ("[{method: lee}, {method: lee}]", "guidance: lee is given twice."),
        ("[]", "guidance: an empty list does not tell the model its target language. Add one of token, lee,"),
        ("null", "guidance should be a list of methods, such as [{method: laa}, {method: lee}]; got None."),
        ("{method: laa}", "guidance should be a list of methods, such as"),
        ("[laa]", "guidance: each entry needs a method, such as {method: token}; got 'laa'."),
        ("[{method: laa, sites: !!set {dec.ffn}}]", "guidance.laa.sites: this should be a list"),
        ("[{? [a] : b}]", "is not a YAML value"),
        ("[{method: random_laa}]", "guidance: random_laa alone does not tell the model its target language."),
    ],
)
def test_mistakes_in_guidance_are_one_line(
    guidance: str, message: str, config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert message in mistake(capsys, "describe", config, "--set", f"guidance={guidance}")


def test_a_run_with_other_guidance_is_not_gone_on_with(
    trained: Experiment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "experiment.yaml"
    path.write_text(yaml.safe_dump(trained.resolved()), encoding="utf-8")
    line = mistake(capsys, "train", path, "--set", "guidance=[{method: lee}]")
    assert 'holds a run with other settings (guidance); there, guidance is [{"method": "token", ' in line


def test_a_model_folder_whose_guidance_was_changed_is_refused(
    trained: Experiment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(trained.run / "model", tmp_path / "model")
    config = yaml.safe_load((tmp_path / "model" / "config.yaml").read_text("utf-8"))
    config["guidance"] = [{"method": "laa"}]
    (tmp_path / "model" / "config.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    assert "do not fit config.yaml: guidance.methods.laa.matrix_LDD is missing" in mistake(
        capsys, "describe", tmp_path / "model"
    )


def test_an_unknown_language_of_the_data_is_named(
    trained: Experiment, config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(capsys, "prepare", config, "--set", "corpus.num_languages=4")
    assert "The model does not know 'qad'" in mistake(
        capsys, "evaluate", trained.run / "model", "--data", tmp_path / "data"
    )


def test_an_interruption_is_told_and_not_traced(
    config: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from manyglot import workflow

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(workflow, "prepare", interrupted)
    _, err = run(capsys, "prepare", config, code=130)
    assert err.startswith("manyglot: interrupted")


def test_the_demo_overwrites_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "report.html").write_text("precious")
    assert "holds something else" in mistake(capsys, "demo", "--output", tmp_path)
    assert (tmp_path / "report.html").read_text() == "precious"


def test_output_is_utf8_whatever_the_locale(trained: Experiment, tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    command = [sys.executable, "-m", "manyglot", "evaluate", str(trained.run / "model"), "--data", str(trained.data)]
    result = subprocess.run(command, capture_output=True, env=environment)
    assert result.returncode == 0, result.stderr
    assert "xx→qaa" in result.stdout.decode("utf-8")


def test_a_reader_that_has_enough_is_no_error(trained: Experiment, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("faku\n" * 3000)
    command = (
        f"{sys.executable} -m manyglot translate {trained.run}/model {tmp_path}/in.txt --to qab --beam 1 | head -n 1"
    )
    result = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, env=os.environ)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.count("\n") == 1


def test_an_interrupted_translation_leaves_whole_lines_and_tells_how_many(trained: Experiment, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "manyglot", "translate", f"{trained.run}/model", "--to", "qab", "-o"]
    with subprocess.Popen(
        [*command, str(tmp_path / "out.txt")], stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        process.stdin.write("faku duka\n" * 1024)
        process.stdin.flush()
        while not (tmp_path / "out.txt").exists() or not (tmp_path / "out.txt").stat().st_size:
            assert process.poll() is None
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        code, told = process.wait(timeout=60), process.stderr.read()
    assert (code, told) == (130, "manyglot: stopped after 1,024 lines.\n")
    assert (tmp_path / "out.txt").read_text().count("\n") == 1024


def test_the_demo_runs_end_to_end_and_can_be_run_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    quick = ["corpus.train_rows=200", "corpus.test_rows=4", "corpus.dev_rows=4", "corpus.languages=[de,en,sw]"]
    quick += ["vocabulary.size=500", "training.max_steps=3", "training.warmup_steps=1"]
    arguments = ["demo", "--output", tmp_path / "demo", *(part for value in quick for part in ("--set", value))]
    out, err = run(capsys, *arguments)
    assert "zero-shot" in out
    assert f"Report: {tmp_path / 'demo' / 'report.html'}" in out
    assert (tmp_path / "demo" / "matrix.svg").exists()
    assert "training 3/3 done" in err
    again, err = run(capsys, *arguments, "--json")
    assert "already prepared" in err
    assert "already trained" in err
    assert json.loads(again)["averages"]["zero-shot"]["num_directions"] == 2
