"""`manyglot translate` as a user runs it."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from manyglot.config.experiment import Experiment
from tests.commands import mistake, run


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
    as_json, _ = run(capsys, "translate", model, tmp_path / "in.txt", "--to", "qab", "--json", "--beam-size", "1")
    assert [json.loads(line)["text"] for line in as_json.splitlines()] == ["kihumi faku zezu", "", "duka"]


def test_translate_splits_lines_and_reports_unknown_characters(
    trained: Experiment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, text, out = trained.run / "model", tmp_path / "in.txt", tmp_path / "out.txt"
    sentences = ["Kihumi faku.", "Zezu duka.", "Faku."]
    text.write_text("\n".join([*sentences, "  ".join(sentences) + " \u2603", ""]))
    command = ["translate", model, text, "--beam-size", 1]
    lines, err = run(capsys, *command, "--to", "qab", "--from", "qaa", "--copy-unknown")
    *one_by_one, together = lines.splitlines()
    assert together == "  ".join(one_by_one) + " \u2603"
    assert "line 4 of" in err
    assert "\u2603 (U+2603). Whole words and symbols are copied." in err
    assert err.endswith("manyglot: 1 line was split into 3 sentences.\n")
    assert "split into" not in run(capsys, *command, "--to", "qab", "--split", "never")[1]
    run(capsys, *command, "--to", "all", "-o", out)
    assert {path.name for path in tmp_path.iterdir()} == {"in.txt", "out.qaa.txt", "out.qab.txt", "out.qac.txt"}
    (out := tmp_path / "out.qab.txt").write_text("keep")
    wrong = {
        ("--split", "sometimes"): "split: 'sometimes' is not known. Known: auto, always, never.",
        ("--max-chars", 1): "max_chars is 1; it must be at least 2.",
        ("--from", "qzz"): "Unknown language 'qzz'",
        ("--from", "qaa,qab"): "Unknown language 'qaa,qab'",
        ("--from", ""): "Unknown language ''",
    }
    for option, message in wrong.items():
        assert message in mistake(capsys, *command, "--to", "qab", *option, "-o", out)
    assert out.read_text() == "keep"


def test_translate_through_a_pivot(trained: Experiment, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, first, half = trained.run / "model", tmp_path / "in.txt", tmp_path / "half.txt"
    first.write_text("kihumi faku zezu\nduka\n")
    half.write_text(run(capsys, "translate", model, first, "--to", "qac")[0])
    by_way, _ = run(capsys, "translate", model, first, "--to", "qab", "--pivot", "qac")
    assert by_way == run(capsys, "translate", model, half, "--to", "qab")[0]
    assert "qzz" in mistake(capsys, "translate", model, first, "--to", "qab", "--pivot", "qzz")


def test_translate_writes_files_and_tables(
    trained: Experiment, tmp_path: Path, stdin: io.BytesIO, capsys: pytest.CaptureFixture[str]
) -> None:
    model, text = trained.run / "model", tmp_path / "in.txt"
    text.write_text("faku\nduka\n")
    out, err = run(
        capsys, "translate", model, text, text, "--to", "qab,qac", "-o", tmp_path / "out.txt", "--beam-size", 3
    )
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


def test_untranslatable_lines_are_empty_and_set_the_exit_code(
    trained: Experiment, stdin: io.BytesIO, capsys: pytest.CaptureFixture[str]
) -> None:
    stdin.write(b"faku\n\xff\xfe\nduka\n")
    stdin.seek(0)
    out, err = run(capsys, "translate", trained.run / "model", "--to", "qab", code=1)
    assert [bool(line) for line in out.splitlines()] == [True, False, True]
    assert err == "manyglot: line 2 of stdin is not valid UTF-8. Convert the input to UTF-8.\n"


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
        assert "export" in mistake(capsys, "translate", folder, text, "--to", "qab", *option)


def test_off_target_outputs_are_corrected(
    trained: Experiment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, text = trained.run / "model", tmp_path / "in.txt"
    text.write_text("kihumi faku zezu\n" * 3)
    command = ["translate", model, text, "--to", "qab", "--json"]
    assert "knows none of the model's languages. Give --langid-data" in mistake(
        capsys, *command, "--correct-off-target"
    )
    assert "Give both" in mistake(capsys, *command, "--langid-data", trained.data)
    out, err = run(capsys, *command, "--correct-off-target", "--langid-data", trained.data)
    on_target = [json.loads(line).get("on_target") for line in out.splitlines()]
    assert len(set(on_target)) == 1
    assert on_target[0] is not None
    assert on_target[0] or "3 of 3 outputs were not in qab. Replaced by an alternative: 0. Marked" in err


def test_a_closed_pipe_is_no_error(trained: Experiment, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("faku\n" * 3000)
    options = f"{trained.run}/model {tmp_path}/in.txt --to qab --beam-size 1"
    command = f"{sys.executable} -m manyglot translate {options} | head -n 1"
    result = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, env=os.environ)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.count("\n") == 1


def test_an_interrupted_translation_writes_complete_lines_and_reports_their_number(
    trained: Experiment, tmp_path: Path
) -> None:
    unfinished = tmp_path / "out.txt.unfinished"
    command = [sys.executable, "-m", "manyglot", "translate", f"{trained.run}/model", "--to", "qab", "-o"]
    with subprocess.Popen(
        [*command, str(tmp_path / "out.txt")], stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        process.stdin.write("faku duka\n" * 1024)
        process.stdin.flush()
        while not unfinished.exists() or not unfinished.stat().st_size:
            assert process.poll() is None
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        code, stderr = process.wait(timeout=60), process.stderr.read()
    assert (code, stderr) == (130, f"manyglot: stopped after 1,024 lines. Their results are in {unfinished}.\n")
    assert unfinished.read_text().count("\n") == 1024
