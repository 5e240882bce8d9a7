"""`manyglot corpus` and `manyglot prepare`, as a user runs them."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from manyglot.config.experiment import Experiment
from tests.commands import mistake, run


def test_a_corpus_is_inspected_and_previewed_before_preparation(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, _ = run(capsys, "corpus", "inspect", config)
    assert "60 train, 8 dev, 8 test rows; 240 training pairs in 4 directions" in out
    out, _ = run(capsys, "corpus", "inspect", config, "--json")
    assert json.loads(out)["num_pairs"]["train"]["qaa>qab"] == 60
    picture = tmp_path / "shares.svg"
    before, _ = run(capsys, "corpus", "preview", config, "-T", "none", "-T", "5", "--output", picture, "--json")
    assert [row["num_pairs"] for row in json.loads(before)["directions"]] == [60] * 4
    assert picture.read_text("utf-8").startswith("<svg")
    run(capsys, "prepare", config)
    out, _ = run(capsys, "corpus", "preview", config)
    assert "share, T = 5" in out
    assert "│ qab qab" in out
    assert "takes a number above 0 or none" in mistake(capsys, "corpus", "preview", config, "-T", "warm")
    weights = ("--set", "batches.direction_weights={qaa>qab: 3}")
    out, _ = run(capsys, "corpus", "preview", config, *weights, "--json")
    assert [row["epoch_share"]["direction_weights"] for row in json.loads(out)["directions"]] == [
        1 / 2,
        1 / 6,
        1 / 6,
        1 / 6,
    ]
    out, _ = run(capsys, "corpus", "preview", config, "--set", "batches.target_weights={qaa: 0.5}", "--json")
    assert [row["epoch_share"]["temperature:5,target_weight:qaa:0.5"] for row in json.loads(out)["directions"]] == [
        1 / 3,
        1 / 3,
        1 / 6,
        1 / 6,
    ]
    other = ("--set", "vocabulary.size=99")
    assert "was prepared from other text or settings" in mistake(capsys, "corpus", "preview", config, *other)


def test_a_corpus_without_training_text_is_a_mistake(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine.yaml").write_text(f"{{corpus: {{kind: multiway, path: {tmp_path}}}, data: x, run: y}}\n")
    for code in ("de", "en"):
        (tmp_path / f"train.{code}").touch()
    out, err = run(capsys, "corpus", "inspect", tmp_path / "mine.yaml", code=2)
    assert "! No training text in any direction." in out
    assert err == "manyglot: The corpus has no training text. Correct the problems listed above.\n"
    (tmp_path / "train.de").write_text("eins\n")
    out, err = run(capsys, "corpus", "inspect", tmp_path / "mine.yaml", code=2)
    assert out.count("is empty") == 1
    assert "A part of the corpus cannot be read." in err


def test_the_command_alone_shows_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    out, err = run(capsys, "corpus")
    assert "Usage: manyglot corpus" in out
    assert err == ""


def test_weights_are_checked_before_preparation(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = mistake(capsys, "prepare", config, "--set", "batches.direction_weights={qab>qac: 3}")
    assert "batches.direction_weights: qab>qac is not trained on." in line
    line = mistake(capsys, "prepare", config, "--set", "batches.target_weights={qax: 3}")
    assert "batches.target_weights: qax is not trained on." in line


@pytest.mark.parametrize("max_bytes", [3_000, 12_000, 40_000])
def test_a_full_disk_is_reported_and_the_preparation_resumes(
    max_bytes: int, config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["prepare", str(config), "--set", "corpus.train_rows=900"]
    limited = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({max_bytes}, {max_bytes}))"
    code = f"{limited}; from manyglot.cli import main; main({command!r})"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100, check=False)
    last = ended.stderr.splitlines()[-1]
    assert (ended.returncode, last.startswith("manyglot: Cannot write ")) == (2, True), ended.stderr
    assert "Traceback" not in ended.stderr
    run(capsys, *command)


def test_prepared_data_is_verified(trained: Experiment, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(trained.data, tmp_path / "data")
    out, err = run(capsys, "corpus", "verify", tmp_path / "data")
    assert out.startswith(f"{tmp_path / 'data'} is undamaged: 31 files, ")
    assert err == ""
    out, _ = run(capsys, "corpus", "verify", tmp_path / "data", "--json")
    summary = json.loads(out)
    assert summary["files"] == sum(path.is_file() for path in (tmp_path / "data").rglob("*"))
    path = tmp_path / "data" / "store" / "train" / "rows.npy"
    path.write_bytes(path.read_bytes()[:-4] + (99).to_bytes(4, "little"))
    line = mistake(capsys, "corpus", "verify", tmp_path / "data")
    assert f"{path} is damaged (its checksum is wrong). Restore the dataset from a copy, or delete it" in line
    assert "is not a prepared dataset" in mistake(capsys, "corpus", "verify", tmp_path)


def test_the_text_of_a_language_pack_is_inspected(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = tmp_path / "new_language.yaml"
    text.write_text("corpus: {kind: synthetic, num_languages: 2, train_rows: 5}\ntraining: {max_steps: 9}\n", "utf-8")
    assert "5 train" in run(capsys, "corpus", "inspect", text)[0]
    split = run(capsys, "corpus", "split", text, "-o", tmp_path / "split", "--dev", 1, "--test", 1)[0]
    assert "rows" in split
    line = mistake(capsys, "prepare", text)
    assert "data is required but missing, and so is run. For a language pack, use `manyglot add-language`." in line
    text.write_text("corpus: {kind: synthetic}\ntraining: {max_step: 9}\n", "utf-8")
    assert "training.max_step is not a setting" in mistake(capsys, "corpus", "inspect", text)
    text.write_text("corpus: {kind: synthetic}\ndata: data\n", "utf-8")
    assert "run is required but missing." in mistake(capsys, "corpus", "inspect", text)
