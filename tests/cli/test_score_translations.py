"""`manyglot translate --score-translations` as a user runs it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from manyglot.config.experiment import Experiment
from manyglot.decoding.translation_requests import TsvColumns, parse_tsv_columns
from tests.commands import mistake, run


def test_outputs_of_translate_get_their_scores_again(
    trained: Experiment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, text, translated = trained.run / "model", tmp_path / "in.txt", tmp_path / "out.jsonl"
    text.write_text("kihumi faku zezu\n\nduka\nfaku\nzezu duka\n")
    run(capsys, "translate", model, text, "--to", "all", "--json", "--scores", "-o", translated, "--split", "never")
    scored, _ = run(capsys, "translate", model, translated, "--format", "jsonl", "--score-translations")
    before, after = ([json.loads(line) for line in lines.splitlines()] for lines in (translated.read_text(), scored))
    assert [each["output"] for each in after] == [each["output"] for each in before]
    equal = [abs(a["score"] - b["score"]) < 1e-5 for a, b in zip(after, before, strict=True) if "score" in b]
    assert len(equal) == 12
    assert sum(equal) >= 8  # the others have the text of a translation in other subwords
    assert all(each["log_probability"] <= each["score"] < 0 for each in after if each["text"])
    unscaled, _ = run(
        capsys, "translate", model, translated, "--format", "jsonl", "--score-translations", "--length-penalty", 0
    )
    for line, each in zip(unscaled.splitlines(), after, strict=True):
        assert json.loads(line).get("score") == each.get("log_probability")


def test_bad_lines_do_not_stop_the_others(
    trained: Experiment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = ["duka\tqab\tfaku", "duka\tqab\t", "\tqab\tfaku", "duka\tqab", "duka\tqzz\tfaku", "duka\tqaa,qab\tfaku", ""]
    (tmp_path / "in.tsv").write_text("\n".join([*rows, "duka\t\tfaku", "duka\tqab\t" + "faku " * 2001, ""]))
    command = ["translate", trained.run / "model", tmp_path / "in.tsv", "--format", "tsv", "--score-translations"]
    out, err = run(capsys, *command, code=1)
    header, first, *others = (line.split("\t") for line in out.splitlines())
    assert header == ["text", "to", "output", "score", "log_probability", "problem", "warnings"]
    assert first[:3] == ["duka", "qab", "faku"]
    assert float(first[3]) < 0
    assert first[5] == ""
    assert {each[3] for each in others} == {""}
    problems = [each[5] for each in others]
    assert problems[0].endswith("in.tsv has an empty translation.")
    assert problems[1].endswith("has an empty text.")
    assert problems[2].endswith("has 2 columns; expected 3, separated by tabs.")
    assert "Unknown language 'qzz'" in problems[3]
    assert problems[4].endswith("names several target languages, but a translation has one.")
    assert problems[5] == problems[4]  # one result for each target
    assert problems[6] == ""
    assert problems[7].endswith("names no target language.")
    assert "has 10,004 characters; at most 10,000 are scored at once" in problems[8]
    assert err.count("\n") == 7
    jsonl = tmp_path / "in.jsonl"
    jsonl.write_text('{"text": "duka", "output": 3, "id": 7}\n{"text": "duka", "output": "faku"}\n')
    out, _ = run(capsys, *command[:2], jsonl, "--format", "jsonl", "--score-translations", "--to", "qab", code=1)
    failed, scored = map(json.loads, out.splitlines())
    assert (failed["id"], failed["problem"]) == (7, f'line 1 of {jsonl} has no "output" to score.')
    assert scored["score"] == pytest.approx(float(first[3]), abs=1e-4)


def test_mistakes_are_explained(trained: Experiment, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "in.tsv").write_text("duka\tqab\tfaku\n")
    command = ["translate", trained.run / "model", tmp_path / "in.tsv", "--score-translations"]
    assert "reads TSV or JSONL input" in mistake(capsys, *command, "--to", "qab", "--format", "text")
    tsv = [*command, "--format", "tsv"]
    assert "needs a fourth column" in mistake(capsys, *tsv, "--columns", "1,2,3")
    assert "--n-best has no effect" in mistake(capsys, *tsv, "--n-best", 2)
    assert "one target language" in mistake(capsys, *tsv, "--to", "qaa,qab")
    assert "--correct-off-target has no effect" in mistake(capsys, *tsv, "--correct-off-target")
    without = [*command[:-1], "--format", "tsv", "--columns", "1,2,,3"]
    assert "needs --score-translations" in mistake(capsys, *without)
    assert parse_tsv_columns("text,to,,output") == TsvColumns("text", "to", None, "output")
