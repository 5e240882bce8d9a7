from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest

from manyglot.errors import ManyglotError
from manyglot.evaluation.comparison import System, compare
from manyglot.evaluation.results import Evaluation
from tests.evaluation.test_evaluate import ROWS, run


def test_results_are_one_json_and_one_table(tmp_path: Path) -> None:
    evaluation = run(ROWS)
    evaluation.save(tmp_path / "results.json")
    saved = json.loads((tmp_path / "results.json").read_text("utf-8"))
    table = pyarrow.parquet.read_table(tmp_path / "results.parquet")
    assert table.to_pylist() == saved["directions"]
    assert len(saved["directions"]) == len(evaluation.directions)
    common = json.loads(table.schema.metadata[b"manyglot"])
    assert common == {key: saved[key] for key in common}
    assert common["settings"]["evaluation"]["tokenizer"] == "auto"
    assert "tok:13a" in saved["directions"][0]["bleu_signature"]
    lines = (tmp_path / "translations.jsonl").read_text("utf-8").splitlines()
    assert json.loads(lines[0])["output"] == evaluation.examples[0].output
    assert len(lines) == len(evaluation.examples)


def test_results_are_read_again(tmp_path: Path) -> None:
    evaluation = run(ROWS)
    evaluation.save(tmp_path / "results.json")
    for path in (tmp_path, tmp_path / "results.json"):
        loaded = Evaluation.load(path)
        assert loaded.directions == evaluation.directions
        assert loaded.averages() == evaluation.averages()
        for direction, statistics in evaluation.statistics.items():
            for ours, theirs in zip(loaded.statistics[direction], statistics, strict=True):
                assert (ours is theirs is None) or (ours == theirs).all()


def test_what_is_no_result_is_refused(tmp_path: Path) -> None:
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
        with pytest.raises(ManyglotError, match=r"is damaged, or not a results.json"):
            Evaluation.load(tmp_path)
    (tmp_path / "results.json").write_text(whole, encoding="utf-8")
    (tmp_path / "statistics.npz").write_bytes(b"PK")
    with pytest.raises(ManyglotError, match=r"statistics.npz is damaged"):
        Evaluation.load(tmp_path)
    (tmp_path / "statistics.npz").unlink()
    assert Evaluation.load(tmp_path).statistics == {}


def test_statistics_of_earlier_versions_are_read(tmp_path: Path) -> None:
    evaluation = run(ROWS)
    evaluation.save(tmp_path / "results.json")
    with np.load(tmp_path / "statistics.npz") as stored:
        earlier = {name: stored[name] for name in ("directions", "sizes", "bleu", "sentences")}
    np.savez_compressed(tmp_path / "statistics.npz", on_target=np.ones(len(earlier["bleu"])), **earlier)
    loaded = Evaluation.load(tmp_path)
    for direction, statistics in evaluation.statistics.items():
        found = loaded.statistics[direction]
        assert (found.bleu_NS == statistics.bleu_NS).all()
        assert found.chrf_NS is found.identified_N is found.flags_NF is found.rows_N is None
    assert compare([System("a", [loaded]), System("b", [evaluation])], "a", num_samples=20).num_samples == 20


def test_averages_name_what_the_identifier_does_not_know() -> None:
    evaluation = run(ROWS)
    assert evaluation.left_out() == []
    assert evaluation.averages()["zero_shot"]["relative_accuracy"] == 50
