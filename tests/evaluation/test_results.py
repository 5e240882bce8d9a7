from __future__ import annotations

import json
import os
import random
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet
import pytest

from manyglot.errors import ManyglotError
from manyglot.evaluation.results import Evaluation
from manyglot.evaluation.translation_examples import read_examples
from tests.evaluation.test_evaluator import ROWS, run


def test_results_are_saved_as_json_and_parquet(tmp_path: Path) -> None:
    evaluation = run(ROWS)
    evaluation.save(tmp_path / "results.json")
    saved = json.loads((tmp_path / "results.json").read_text("utf-8"))
    table = pyarrow.parquet.read_table(tmp_path / "results.parquet")
    assert table.to_pylist() == [{k: v for k, v in d.items() if k != "metrics"} for d in saved["directions"]]
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


def load_or_error(folder: Path) -> Evaluation | str:
    """Load results with all their sentences, as a report does; return the error if that fails."""
    try:
        evaluation = Evaluation.load(folder)
        indices = {d.direction: range(d.num_sentences) for d in evaluation.directions}
        return replace(evaluation, examples=list(read_examples(folder, indices, evaluation.seals)))
    except ManyglotError as error:
        return str(error)


def test_every_damage_of_a_result_file_is_noticed(tmp_path: Path) -> None:
    with pytest.raises(ManyglotError, match=r"Cannot read .*results.json.*`manyglot evaluate --output` writes it"):
        Evaluation.load(tmp_path)
    rng, evaluation = random.Random(1), run(ROWS)
    evaluation.save(tmp_path / "results.json")
    loaded = load_or_error(tmp_path)
    assert isinstance(loaded, Evaluation)
    assert (loaded.directions, loaded.examples) == (evaluation.directions, evaluation.examples)
    for name in ("results.json", "statistics.npz", "translations.jsonl"):
        whole = (tmp_path / name).read_bytes()
        damaged = [
            b"",
            whole[: len(whole) // 2],
            whole[:-2],
            b"[" * 5000,
            b"\xff",
            b'{"directions": NaN}',
            whole + b"x",
        ]
        for _ in range(25):
            position = rng.randrange(len(whole) - 1)
            damaged.append(whole[:position] + bytes([whole[position] ^ 1 << rng.randrange(8)]) + whole[position + 1 :])
        for content in damaged:
            (tmp_path / name).write_bytes(content)
            error = load_or_error(tmp_path)
            assert isinstance(error, str), (name, content)
            assert f"{tmp_path / name} is " in error
            assert "valuate again" in error
            assert len(error) < 500
        (tmp_path / name).unlink()
        os.mkfifo(tmp_path / name)
        assert str(load_or_error(tmp_path)).startswith(f"{tmp_path / name} is ")
        (tmp_path / name).unlink()
        (tmp_path / name).write_bytes(whole)


def test_results_may_be_rewritten_and_files_deleted_but_not_exchanged(tmp_path: Path) -> None:
    run(ROWS).save(tmp_path / "results.json")
    path = tmp_path / "results.json"
    values = json.loads(path.read_text("utf-8"))
    text = json.dumps({"comment": "good", **dict(reversed(values.items()))}).replace(".0,", ",")
    path.write_text(text)
    assert isinstance(load_or_error(tmp_path), Evaluation), "the same numbers in another layout, and a new key"
    values["directions"][0]["bleu"] += 1e-9
    path.write_text(json.dumps(values))
    with pytest.raises(ManyglotError, match=r"results\.json is damaged \(its content does not match its checksum"):
        Evaluation.load(tmp_path)
    path.write_text(text)
    run([*ROWS, ROWS[0]]).save(tmp_path / "other" / "results.json")
    for name, message in (("statistics.npz", "does not belong to the results.json"), ("translations.jsonl", "changed")):
        (tmp_path / name).write_bytes((tmp_path / "other" / name).read_bytes())
        assert message in str(load_or_error(tmp_path))
        (tmp_path / name).unlink()
        assert isinstance(load_or_error(tmp_path), Evaluation)
    assert Evaluation.load(tmp_path).statistics == {}


def test_results_without_statistics_replace_those_with_statistics(tmp_path: Path) -> None:
    run(ROWS).save(tmp_path / "results.json")
    replace(run(ROWS), statistics={}).save(tmp_path / "results.json")
    assert Evaluation.load(tmp_path).statistics == {}


def test_outputs_with_lone_surrogates_are_saved(tmp_path: Path) -> None:
    evaluation = run(ROWS)
    odd = [replace(example, output="a \ud800 b") for example in evaluation.examples]
    replace(evaluation, examples=odd).save(tmp_path / "results.json")
    loaded = load_or_error(tmp_path)
    assert isinstance(loaded, Evaluation)
    assert loaded.examples == odd


def test_averages_leave_out_unidentifiable_targets() -> None:
    evaluation = run(ROWS)
    assert evaluation.unidentifiable_targets() == []
    assert evaluation.averages()["zero_shot"]["relative_language_accuracy"] == 50
