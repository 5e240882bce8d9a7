from __future__ import annotations

import json
from pathlib import Path

import pytest

from manyglot.corpus.languages import Direction, Languages
from manyglot.errors import ManyglotError
from manyglot.evaluation.segment_score_files import read_segment_scores

LANGUAGES = Languages(["de", "en", "fr"])
DE_EN, FR_EN = Direction("de", "en"), Direction("fr", "en")
COMET_STDOUT = """\
nllb/de-en.txt\tSegment 0\tscore: 0.81
nllb/de-en.txt\tSegment 1\tscore: 0.5\tvariance: 0.1
nllb/de-en.txt\tscore: 0.655
Predictions saved in: comet.json.
"""


def read(path: Path, metric: str = "comet") -> dict[Direction | None, list[float]]:
    scores = read_segment_scores(path, metric, LANGUAGES).scores
    return {direction: list(map(float, lines.lines)) for direction, lines in scores.items()}


def write(path: Path, content: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content, "utf-8")
    return path


def test_comet_files_are_read(tmp_path: Path) -> None:
    sentences = [{"src": "a", "mt": "b", "ref": "c", "COMET": 0.81}, {"src": "d", "mt": "e", "ref": "f", "COMET": 0.5}]
    path = write(tmp_path / "comet.json", json.dumps({"nllb/de-en.txt": sentences, "nllb/fr-en.txt": sentences}))
    assert read(path) == {DE_EN: [0.81, 0.5], FR_EN: [0.81, 0.5]}
    assert read_segment_scores(path, "comet", LANGUAGES).outputs[DE_EN].lines == ["b", "e"]
    assert read(write(tmp_path / "printed.txt", COMET_STDOUT)) == {DE_EN: [0.81, 0.5]}
    assert read(write(tmp_path / "printed.tsv", COMET_STDOUT)) == {DE_EN: [0.81, 0.5]}


def test_metricx_files_are_read(tmp_path: Path) -> None:
    lines = [{"source": "a", "hypothesis": h, "reference": "c", "prediction": p} for h, p in (("b", 1.5), ("e", 3))]
    path = write(tmp_path / "out" / "de-en.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
    scores = read_segment_scores(path.parent, "mx", LANGUAGES)
    assert scores.is_metricx
    assert read(path.parent, "mx") == {DE_EN: [1.5, 3.0]}
    assert scores.outputs[DE_EN].lines == ["b", "e"]


def test_plain_numbers_and_tables_are_read(tmp_path: Path) -> None:
    write(tmp_path / "plain" / "de-en.comet", "0.5\n0.25\n")
    write(tmp_path / "plain" / "fr-en.tsv", "1\t0.5\n2\t1e-3\n")
    assert read(tmp_path / "plain") == {DE_EN: [0.5, 0.25], FR_EN: [0.5, 0.001]}
    assert read(write(tmp_path / "all.txt", "1\n2\n")) == {None: [1.0, 2.0]}
    table = "src_lang\ttgt_lang\txcomet\nde\ten\t0.5\nfra\teng\t0.75\nru\ten\t1\n"
    assert read(write(tmp_path / "table.tsv", table), "xcomet") == {DE_EN: [0.5], FR_EN: [0.75]}


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("de-en.txt", "0.5\nnan\n", r"de-en.txt, line 2: the score 'nan' is not a finite number"),
        ("de-en.txt", "0.5\n\n", r"de-en.txt, line 2: the score '' is not"),
        ("de-en.jsonl", '{"score": true}\n', r"de-en.jsonl, line 1: the score True is not"),
        ("de-en.jsonl", '{"score": NaN}\n', r"de-en.jsonl, line 1 is not JSON \(NaN is not a finite number\)"),
        ("de-en.jsonl", '{"bleurt": 1}\n', r"line 1 has no column 'comet' or 'score'; it has bleurt"),
        ("de-en.tsv", "a\tb\n1\t2\n", r"line 2 has no column 'comet' or 'score'; it has a, b"),
        ("de-en.json", '{"a": 1}', r"is not a list of sentences for each file"),
        ("de-en.txt", "", r"de-en.txt has no scores"),
    ],
)
def test_wrong_scores_are_errors(tmp_path: Path, name: str, content: str, message: str) -> None:
    with pytest.raises(ManyglotError, match=message):
        read(write(tmp_path / name, content))


def test_a_direction_has_one_file(tmp_path: Path) -> None:
    write(tmp_path / "s" / "de-en.txt", "1\n")
    write(tmp_path / "s" / "de-en.comet", "1\n")
    with pytest.raises(ManyglotError, match="both have scores of de→en"):
        read(tmp_path / "s")
