from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from manyglot.batches.tokenization import split_into_chunks, tokenize_chunk
from manyglot.corpus.aligned_text import LineBlock, parse_block
from manyglot.corpus.cleaning import CleaningSettings
from manyglot.corpus.languages import Direction, Languages
from manyglot.errors import CorpusError, ManyglotError
from manyglot.evaluation.direction_scoring import (
    DirectionTexts,
    _init_worker,
    _score_in_worker,
    _tasks_by_target,
)
from manyglot.evaluation.metrics import BleuChrfScorer
from manyglot.langid.external_identifiers import Py3LangidIdentifier
from manyglot.vocabulary.sentencepiece_model import train_subword_model
from manyglot.vocabulary.subword_model import VocabularySettings
from manyglot.vocabulary.word_counts import TextRange, count_words_of_range
from manyglot.worker_processes import run_in_workers

LINES = [f"Die Zahl {i} ist gr\u00f6\u00dfer als {i - 1}." for i in range(100)]


def square(number: int) -> int:
    return number * number


def fail(message: str) -> None:
    raise CorpusError(message)


def end_process(code: int) -> None:
    os._exit(code)


def thread_limits(_: object) -> list[str | None]:
    return [os.environ.get(name) for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")]


def imports_torch(call: tuple[Callable[[Any], object], Any]) -> bool:
    """Run one task of a worker; whether that imported torch."""
    function, task = call
    function(task)
    return "torch" in sys.modules


@pytest.mark.parametrize("num_workers", [1, 2])
def test_results_come_in_the_order_of_the_tasks(num_workers: int) -> None:
    assert list(run_in_workers(square, iter(range(30)), num_workers)) == [i * i for i in range(30)]


def test_the_error_of_a_worker_is_raised_here() -> None:
    with pytest.raises(CorpusError, match="line 7"):
        list(run_in_workers(fail, ["line 7", "line 8"], 2))


def test_a_killed_worker_is_one_error() -> None:
    with pytest.raises(ManyglotError, match="worker process ended"):
        list(run_in_workers(end_process, [9], 2))


def test_a_large_state_reaches_the_workers_that_are_needed() -> None:
    num_threads = threading.active_count()
    state = ("x" * 10**7,)
    assert list(run_in_workers(square, [3], 3, initializer=len, initializer_arguments=state)) == [9]
    assert threading.active_count() == num_threads


def test_workers_use_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    monkeypatch.delenv("MKL_NUM_THREADS", raising=False)
    assert list(run_in_workers(thread_limits, [None], 2)) == [["1"] * 3]
    assert (os.environ["OMP_NUM_THREADS"], os.environ.get("MKL_NUM_THREADS")) == ("7", None)


def test_no_worker_imports_torch(tmp_path: Path) -> None:
    """Importing torch takes seconds in each worker; only tests and training in this process need it."""
    text, model = tmp_path / "train.de", tmp_path / "subwords.model"
    text.write_text("".join(f"{line}\n" for line in LINES), encoding="utf-8")
    train_subword_model(LINES, VocabularySettings(size=64)).save(model)
    (chunk,) = split_into_chunks(text, model, tmp_path, CleaningSettings(filter_by_language=True))
    (task,) = _tasks_by_target({Direction("en", "de"): DirectionTexts(LINES, LINES[::-1], LINES)}, None)
    calls: list[tuple[Callable[[Any], object], Any]] = [
        (parse_block, LineBlock({"de": text.read_bytes()}, len(LINES), True)),
        (count_words_of_range, TextRange(text, 0, text.stat().st_size)),
        (tokenize_chunk, chunk),
        (_score_in_worker, task),
    ]
    identifier = Py3LangidIdentifier(Languages(["de", "en"]))
    assert not any(run_in_workers(imports_torch, calls, 2, _init_worker, (identifier, BleuChrfScorer())))
