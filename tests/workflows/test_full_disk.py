"""Every command that writes results, on a disk that becomes full: one line, nothing that looks whole, and a retry."""

from __future__ import annotations

import gzip
import io
import json
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from manyglot.config.experiment import Experiment
from manyglot.decoding.translation_job import TranslationJob
from manyglot.errors import ManyglotError
from tests.commands import mistake, run
from tests.decoding.stub import stub
from tests.reports.synthetic_runs import SIX, synthetic_evaluation, with_statistics
from tests.reports.test_learning_curve_plot import LOG


@contextmanager
def full_disk(max_file_bytes: int) -> Iterator[None]:
    """Fail writes beyond this position of any file, as a full disk does."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (max_file_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """The settings of a corpus of three languages whose test rows share their English."""
    (tmp_path / "text").mkdir()
    for code in ("de", "en", "fr"):
        for split, count in (("train", 400), ("dev", 2), ("test", 300)):
            lines = "".join(f"{code} sentence number {i} of {split}\n" for i in range(count))
            (tmp_path / "text" / f"{split}.{code}").write_text(lines)
    (tmp_path / "corpus.yaml").write_text(
        f"data: {tmp_path}/data\nrun: {tmp_path}/run\nvocabulary: {{size: 100}}\n"
        f"corpus: {{kind: multiway, path: {tmp_path}/text}}\n"
    )
    return tmp_path / "corpus.yaml"


def check_full_disk_and_retry(
    capsys: pytest.CaptureFixture[str], output: Path, *command: object, max_file_bytes: int = 1000
) -> None:
    """Run a command on a full disk and again with room; the output must be the same as that of an undisturbed run."""
    run(capsys, *command)
    expected = snapshot(output)
    if output.is_dir():
        remove(output)
    before = {path.name for path in output.parent.iterdir()} - {output.name}
    with full_disk(max_file_bytes):
        message = mistake(capsys, *command)
    assert message.startswith(f"manyglot: Cannot write {output}: File too large")
    assert {path.name for path in output.parent.iterdir()} - {output.name} == before
    assert not output.is_dir()
    if expected.keys() == {"."}:
        assert snapshot(output) == expected, "the earlier file is unchanged"
    run(capsys, *command)
    assert snapshot(output).keys() == expected.keys()


def snapshot(output: Path) -> dict[str, bytes]:
    paths = [path for path in (output, *output.rglob("*")) if path.is_file()]
    return {str(path.relative_to(output)): path.read_bytes() for path in paths}


def remove(folder: Path) -> None:
    for path in sorted(folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    folder.rmdir()


def test_corpus_commands(corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "out"
    for command in (("zero-shot", corpus), ("split", corpus, "--dev", 10, "--test", 10)):
        check_full_disk_and_retry(capsys, folder, "corpus", *command, "-o", folder)
        remove(folder)
    picture = tmp_path / "shares.svg"
    check_full_disk_and_retry(capsys, picture, "corpus", "preview", corpus, "-o", picture, max_file_bytes=100)
    check_full_disk_and_retry(capsys, picture, "corpus", "translations", corpus, "-o", picture, max_file_bytes=100)


def test_report_and_plot(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with_statistics(synthetic_evaluation(SIX)).save(tmp_path / "scores" / "results.json")
    page, picture = tmp_path / "page.html", tmp_path / "curves.svg"
    check_full_disk_and_retry(capsys, page, "report", tmp_path / "scores", "-o", page)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in LOG[:2]))
    picture.write_text("earlier")
    with full_disk(1000):
        assert f"Cannot write {picture}: File too large" in mistake(capsys, "plot", tmp_path / "run", "-o", picture)
    assert picture.read_text() == "earlier"
    assert not list(tmp_path.glob("*.unfinished"))


def test_evaluate_keeps_its_translations(
    trained: Experiment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "scores"
    command = ("evaluate", trained.run / "model", "--data", trained.data, "--output", output)
    with full_disk(3000):
        _, messages = run(capsys, *command, code=2)
    assert f"manyglot: Cannot write {output}: " in messages.splitlines()[-1]
    assert not output.exists()
    assert "are already translated" in run(capsys, *command)[1]
    assert not list(output.glob("*.unfinished"))


def translate_on_full_disk(output: Path, targets: list[str], max_file_bytes: int) -> str:
    job = TranslationJob(targets=targets, output=output)
    source = b"".join(b"line %d\n" % number for number in range(1100))
    with full_disk(max_file_bytes), pytest.raises(ManyglotError) as failure:
        job.run(stub(), io.BytesIO(source), io.BytesIO())
    job.run(stub(), io.BytesIO(source), io.BytesIO())
    return str(failure.value)


def test_translate(tmp_path: Path) -> None:
    output = tmp_path / "out.txt"
    output.write_text("earlier")
    assert translate_on_full_disk(output, ["de"], 8000).startswith(f"Cannot write {output}: File too large")
    assert output.read_text().count("\n") == 1100
    assert "out.de.txt: File too large" in translate_on_full_disk(output, ["de", "fr"], 8000)
    assert (tmp_path / "out.fr.txt").read_text().count("\n") == 1100
    assert "out.gz: File too large" in translate_on_full_disk(tmp_path / "out.gz", ["de"], 1000)
    assert gzip.decompress((tmp_path / "out.gz").read_bytes()).count(b"\n") == 1100
    assert {path.name for path in tmp_path.iterdir()} == {"out.txt", "out.de.txt", "out.fr.txt", "out.gz"}


def test_a_failed_translation_has_no_final_name(tmp_path: Path) -> None:
    job = TranslationJob(targets=["de"], output=tmp_path / "out.txt")
    with full_disk(7000), pytest.raises(ManyglotError):
        job.run(stub(), io.BytesIO(b"line\n" * 1100), io.BytesIO())
    assert [path.name for path in tmp_path.iterdir()] == ["out.txt.unfinished"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has /dev/full")
def test_standard_output(tmp_path: Path) -> None:
    synthetic_evaluation(SIX).save(tmp_path / "scores" / "results.json")
    with open("/dev/full", "wb") as full:
        process = subprocess.run(
            [sys.executable, "-m", "manyglot", "compare", str(tmp_path / "scores")],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    expected = (
        "manyglot: Cannot write standard output: No space left on device; make room and run the same command again"
    )
    assert (process.returncode, process.stderr) == (2, f"{expected}.\n")
    with (
        open("/dev/full", "wb", buffering=0) as full,
        pytest.raises(ManyglotError, match="Cannot write standard output: No space"),
    ):
        TranslationJob(targets=["de"]).run(stub(), io.BytesIO(b"line\n"), full)
