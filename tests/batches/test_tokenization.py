"""Tokenizing in chunks and processes gives the same result as tokenizing at once, and resumes after an interruption."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import manyglot
from manyglot.batches import tokenization
from manyglot.batches.prepared_dataset import PreparedDataset
from manyglot.batches.tokenization import TextChunk, read_tokenized_chunk, split_into_chunks, tokenize_missing_chunks
from manyglot.corpus.base import Split
from manyglot.corpus.cleaning import CleaningSettings
from tests.conftest import tiny_experiment

CLEANING = CleaningSettings(max_subwords=12)


@pytest.fixture
def text(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    lines = ["".join(rng.choice(list("abcdé "), n)).strip() for n in rng.integers(0, 30, 500)]
    (tmp_path / "train.de").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return tmp_path / "train.de"


def chunks(text: Path, dataset: PreparedDataset, folder: Path) -> list[TextChunk]:
    folder.mkdir(exist_ok=True)
    return list(split_into_chunks(text, dataset.folder / "subwords.model", folder, CLEANING))


def sentences(chunk_list: list[TextChunk]) -> dict[int, list[int]]:
    """Return the subwords of each line, over all chunks."""
    lines, first = {}, 0
    for chunk in chunk_list:
        encoded = read_tokenized_chunk(chunk)
        ends = np.cumsum(encoded.sentences.lengths)
        for row, start, end in zip(encoded.sentences.rows, ends - encoded.sentences.lengths, ends, strict=True):
            lines[first + int(row)] = encoded.sentences.tokens[start:end].tolist()
        first += encoded.num_lines
    return lines


@pytest.mark.parametrize("processes", [False, True])
def test_chunks_and_processes_do_not_change_the_result(
    text: Path, dataset: PreparedDataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, processes: bool
) -> None:
    monkeypatch.setattr(tokenization, "CHUNK_BYTES", 900)
    monkeypatch.setattr(tokenization, "MIN_PARALLEL_BYTES", 0 if processes else 2**30)
    chunk_list = chunks(text, dataset, tmp_path / "parts")
    assert len(chunk_list) > 5
    tokenize_missing_chunks(chunk_list, "train")
    at_once = dataset.vocabulary.encode(text.read_text("utf-8").splitlines())
    expected = {i: ids for i, ids in enumerate(at_once) if 0 < len(ids) <= 12}
    assert sentences(chunk_list) == expected
    assert sum(read_tokenized_chunk(chunk).dropped["too_long"] for chunk in chunk_list) == sum(
        len(ids) > 12 for ids in at_once
    )


def test_finished_chunks_are_not_tokenized_again(
    text: Path, dataset: PreparedDataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokenization, "CHUNK_BYTES", 900)
    chunk_list = chunks(text, dataset, tmp_path / "parts")
    tokenize_missing_chunks(chunk_list[:3], "train")
    before = [chunk.result_file.stat().st_mtime_ns for chunk in chunk_list[:3]]
    tokenize_missing_chunks(chunk_list, "train")
    assert [chunk.result_file.stat().st_mtime_ns for chunk in chunk_list[:3]] == before


def test_an_interrupted_preparation_resumes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After an interruption the text and the subword model are reused, and the result is the uninterrupted one."""
    whole = manyglot.prepare(tiny_experiment(tmp_path / "whole"))
    experiment = tiny_experiment(tmp_path / "stopped")
    original = tokenization.tokenize_chunk

    def stop_after_the_first(chunk: TextChunk) -> None:
        if any(chunk.result_file.parent.iterdir()):
            raise KeyboardInterrupt
        original(chunk)

    monkeypatch.setattr(tokenization, "tokenize_chunk", stop_after_the_first)
    with pytest.raises(KeyboardInterrupt):
        manyglot.prepare(experiment)
    assert not experiment.data.exists()
    model = experiment.data.with_name("data.unfinished") / "subwords.model"
    before = model.stat().st_mtime_ns
    monkeypatch.setattr(tokenization, "tokenize_chunk", original)
    again = manyglot.prepare(experiment)
    assert (experiment.data / "subwords.model").stat().st_mtime_ns == before
    assert not model.parent.exists()
    for split in (Split.TRAIN, Split.DEV):
        np.testing.assert_array_equal(again.token_store(split).tokens, whole.token_store(split).tokens)
    names = sorted(path.relative_to(whole.folder) for path in whole.folder.rglob("*"))
    assert names == sorted(path.relative_to(again.folder) for path in again.folder.rglob("*"))


def test_unfinished_work_of_other_settings_is_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original = tokenization.tokenize_chunk
    monkeypatch.setattr(tokenization, "tokenize_chunk", lambda chunk: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        manyglot.prepare(tiny_experiment(tmp_path, vocabulary={"size": 100}))
    monkeypatch.setattr(tokenization, "tokenize_chunk", original)
    assert len(manyglot.prepare(tiny_experiment(tmp_path)).vocabulary.subword_model) == 120
