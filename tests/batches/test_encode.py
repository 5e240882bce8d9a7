"""Tokenising in chunks and processes gives what tokenising at once does, and goes on after an interruption."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import manyglot
from manyglot.batches import encode as encoding
from manyglot.batches.dataset import Dataset
from manyglot.batches.encode import Chunk, chunks_of, encode_all, read_result
from manyglot.corpus.cleaning import CleaningSettings
from manyglot.corpus.rows import Split
from tests.conftest import tiny_experiment

CLEANING = CleaningSettings(max_subwords=12)


@pytest.fixture
def text(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    lines = ["".join(rng.choice(list("abcdé "), n)).strip() for n in rng.integers(0, 30, 500)]
    (tmp_path / "train.de").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return tmp_path / "train.de"


def chunks(text: Path, dataset: Dataset, folder: Path) -> list[Chunk]:
    folder.mkdir(exist_ok=True)
    return list(chunks_of(text, dataset.folder / "subwords.model", folder, CLEANING))


def sentences(found: list[Chunk]) -> dict[int, list[int]]:
    """The subwords of each line, through all chunks."""
    lines, first = {}, 0
    for chunk in found:
        encoded = read_result(chunk)
        ends = np.cumsum(encoded.part.lengths)
        for row, start, end in zip(encoded.part.rows, ends - encoded.part.lengths, ends, strict=True):
            lines[first + int(row)] = encoded.part.tokens[start:end].tolist()
        first += encoded.num_lines
    return lines


@pytest.mark.parametrize("processes", [False, True])
def test_chunks_and_processes_change_nothing(
    text: Path, dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, processes: bool
) -> None:
    monkeypatch.setattr(encoding, "CHUNK_BYTES", 900)
    monkeypatch.setattr(encoding, "ALONE_BELOW", 0 if processes else 2**30)
    found = chunks(text, dataset, tmp_path / "parts")
    assert len(found) > 5
    encode_all(found, "train")
    at_once = dataset.vocabulary.encode(text.read_text("utf-8").splitlines())
    expected = {i: ids for i, ids in enumerate(at_once) if 0 < len(ids) <= 12}
    assert sentences(found) == expected
    assert sum(read_result(chunk).dropped["too_long"] for chunk in found) == sum(len(ids) > 12 for ids in at_once)


def test_what_is_done_is_not_done_again(
    text: Path, dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encoding, "CHUNK_BYTES", 900)
    found = chunks(text, dataset, tmp_path / "parts")
    encode_all(found[:3], "train")
    before = [chunk.result.stat().st_mtime_ns for chunk in found[:3]]
    encode_all(found, "train")
    assert [chunk.result.stat().st_mtime_ns for chunk in found[:3]] == before


def test_an_interrupted_preparation_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed while tokenising: the text and the subwords are used again, and the result is the uninterrupted one."""
    whole = manyglot.prepare(tiny_experiment(tmp_path / "whole"))
    experiment = tiny_experiment(tmp_path / "stopped")
    original = encoding.encode

    def stop_after_the_first(chunk: Chunk) -> None:
        if any(chunk.result.parent.iterdir()):
            raise KeyboardInterrupt
        original(chunk)

    monkeypatch.setattr(encoding, "encode", stop_after_the_first)
    with pytest.raises(KeyboardInterrupt):
        manyglot.prepare(experiment)
    assert not experiment.data.exists()
    model = experiment.data.with_name("data.unfinished") / "subwords.model"
    before = model.stat().st_mtime_ns
    monkeypatch.setattr(encoding, "encode", original)
    again = manyglot.prepare(experiment)
    assert (experiment.data / "subwords.model").stat().st_mtime_ns == before
    assert not model.parent.exists()
    for split in (Split.TRAIN, Split.DEV):
        np.testing.assert_array_equal(again.store(split).tokens, whole.store(split).tokens)
    names = sorted(path.relative_to(whole.folder) for path in whole.folder.rglob("*"))
    assert names == sorted(path.relative_to(again.folder) for path in again.folder.rglob("*"))


def test_the_rest_of_another_preparation_is_cleared_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original = encoding.encode
    monkeypatch.setattr(encoding, "encode", lambda chunk: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        manyglot.prepare(tiny_experiment(tmp_path, vocabulary={"size": 100}))
    monkeypatch.setattr(encoding, "encode", original)
    assert len(manyglot.prepare(tiny_experiment(tmp_path)).vocabulary.subwords) == 120
