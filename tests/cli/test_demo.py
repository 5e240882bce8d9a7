"""`manyglot demo` as a user runs it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.commands import mistake, run


def test_the_demo_overwrites_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "report.html").write_text("precious")
    assert "is not a demo folder" in mistake(capsys, "demo", "--output", tmp_path)
    assert (tmp_path / "report.html").read_text() == "precious"


def test_the_demo_runs_end_to_end_and_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
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
    assert json.loads(again)["averages"]["zero_shot"]["num_directions"] == 2
