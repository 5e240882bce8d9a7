from __future__ import annotations

import json
import re
from pathlib import Path

import pyarrow.parquet
import pytest

from manyglot.errors import ManyglotError
from manyglot.evaluation.results import Evaluation
from tests.evaluation.test_evaluator import ROWS, run


def test_results_are_saved_as_json_and_parquet(tmp_path: Path) -> None:
    evaluation = run(ROWS)
    evaluation.save(tmp_path / "results.json")
    saved = json.loads((tmp_path / "results.json").read_text("utf-8"))
    table = pyarrow.parquet.read_table(tmp_path / "results.parquet")
    assert table.to_pylist() == saved["directions"]
    assert len(saved["directions"]) == len(evaluation.directions)
    common = json.loads(table.schema.metadata[b"manyglot"])
    assert common == {key: saved[key] for key in common}
    assert common["settings"]["evaluation"]["bleu_tokenizer"] == "auto"
    assert "tok:13a" in saved["directions"][0]["bleu_signature"]
    lines = (tmp_path / "translations.jsonl").read_text("utf-8").splitlines()
    assert json.loads(lines[0])["output"] == evaluation.examples[0].output
    assert len(lines) == len(evaluation.examples)


def test_results_load_as_saved(tmp_path: Path) -> None:
    evaluation = run(ROWS)
    evaluation.save(tmp_path / "results.json")
    for path in (tmp_path, tmp_path / "results.json"):
        loaded = Evaluation.load(path)
        assert loaded.directions == evaluation.directions
        assert loaded.averages() == evaluation.averages()
        for direction, statistics in evaluation.statistics.items():
            for ours, theirs in zip(loaded.statistics[direction], statistics, strict=True):
                assert (ours is theirs is None) or (ours == theirs).all()


def test_damaged_results_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ManyglotError, match=r"Cannot read .*results.json"):
        Evaluation.load(tmp_path)
    run(ROWS).save(tmp_path / "results.json")
    whole = (tmp_path / "results.json").read_text("utf-8")
    without_score = re.sub(r'"bleu": [\d.]+', '"bleu": null', whole)
    for text in (
        "{",
        "[]",
        '{"directions": [{"source": "de"}]}',
        '{"directions": 3}',
        '{"directions": []}',
        without_score,
    ):
        (tmp_path / "results.json").write_text(text)
        with pytest.raises(ManyglotError, match=r"is damaged, or was not written"):
            Evaluation.load(tmp_path)
    (tmp_path / "results.json").write_text(whole, encoding="utf-8")
    (tmp_path / "statistics.npz").write_bytes(b"PK")
    with pytest.raises(ManyglotError, match=r"statistics.npz is damaged"):
        Evaluation.load(tmp_path)
    (tmp_path / "statistics.npz").unlink()
    assert Evaluation.load(tmp_path).statistics == {}


def test_averages_leave_out_unidentifiable_targets() -> None:
    evaluation = run(ROWS)
    assert evaluation.unidentifiable_targets() == []
    assert evaluation.averages()["zero_shot"]["relative_language_accuracy"] == 50
