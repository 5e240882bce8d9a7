from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from manyglot.corpus.languages import Direction, Languages, enumerate_directions
from manyglot.evaluation.test_set_translation import (
    EvaluationSet,
    complete_directions,
    translate_evaluation_set,
)
from manyglot.evaluation.translation_cache import TranslationCache

CODES = ("de", "en", "fr", "sw")
ROWS = [{code: f"{code} {n}" for code in CODES if (code, n) != ("fr", 2)} for n in range(5)]
DIRECTIONS = enumerate_directions(Languages(CODES))
EVALUATION_SET = EvaluationSet(
    {d: [row for row in ROWS if d.source in row and d.target in row] for d in DIRECTIONS}, frozenset()
)
EXPECTED = {d: [f"{d.target}({row[d.source]})" for row in rows] for d, rows in EVALUATION_SET.rows_by_direction.items()}


class Translator:
    """Records its calls; can be interrupted after some of them."""

    pivot_code: str | None = None

    def __init__(self, short_block_size: int = 1000, stop_after: int | None = None) -> None:
        self.engine, self.calls, self.stop_after = (
            SimpleNamespace(short_block_size=short_block_size),
            [],
            stop_after,
        )  # type: ignore[var-annotated]

    def translate(
        self, texts: list[str], to: list[str], source: list[str], sentence_offset: int, progress: Any
    ) -> list[str]:
        assert source == [text.split()[0] for text in texts]
        if self.stop_after is not None and len(self.calls) >= self.stop_after:
            raise KeyboardInterrupt
        self.calls.append((texts, to, sentence_offset))
        progress.advance(len(texts))
        prefix = f"via {self.pivot_code} " if self.pivot_code else ""
        return [f"{prefix}{code}({text})" for text, code in zip(texts, to, strict=True)]

    def with_settings(self, pivot: None) -> Translator:
        return Translator(self.engine.short_block_size, self.stop_after)


class Process:
    """One of several distributed processes."""

    def __init__(self, rank: int, size: int) -> None:
        self.rank, self.world_size = rank, size

    def strided_share(self, items: Any) -> list[tuple[int, Any]]:
        return list(enumerate(items))[self.rank :: self.world_size]

    def barrier(self) -> None:
        pass


def run(translator: Translator, *arguments: Any) -> dict[Direction, list[str]]:
    return translate_evaluation_set(translator, EVALUATION_SET, *arguments)  # type: ignore[arg-type]


def test_directions_are_translated_together() -> None:
    translator = Translator()
    assert run(translator) == EXPECTED
    assert len(translator.calls) == 1


def test_sentence_positions_do_not_depend_on_the_blocks() -> None:
    """Sampling therefore gives the same outputs with any engine and any number of processes."""
    texts_by_position = []
    for short_block_size, num_processes in ((1, 1), (5, 1), (1000, 1), (5, 3)):
        translator = Translator(short_block_size)
        for rank in range(num_processes):
            run(translator, None, Process(rank, num_processes))
        texts_by_position.append(
            {
                (sentence_offset + i): pair
                for texts, to, sentence_offset in translator.calls
                for i, pair in enumerate(zip(texts, to, strict=True))
            }
        )
    assert len(texts_by_position[0]) == sum(map(len, EXPECTED.values()))
    assert all(other == texts_by_position[0] for other in texts_by_position)


def test_only_zero_shot_directions_use_the_pivot() -> None:
    """Directions from the pivot never do, and trained directions need none."""
    trained = frozenset(enumerate_directions(Languages(CODES), "en")) | {Direction("de", "fr")}
    translator = Translator()
    translator.pivot_code = "en"
    zero_shot_set = EvaluationSet(
        EVALUATION_SET.rows_by_direction, frozenset(DIRECTIONS) - trained | {Direction("en", "sw")}
    )
    outputs = translate_evaluation_set(translator, zero_shot_set)  # type: ignore[arg-type]
    for direction, texts in outputs.items():
        prefix = "" if direction in trained else "via en "
        assert texts == [prefix + text for text in EXPECTED[direction]]
    assert list(outputs) == list(EXPECTED)


def test_sentence_positions_do_not_depend_on_the_cache(tmp_path: Path) -> None:
    """Sampling therefore gives the same outputs after an interruption."""
    whole, first, second = Translator(3), Translator(3, stop_after=3), Translator(3)
    run(whole)
    assert len(whole.calls) > 4, "blocks are shorter than directions"
    with pytest.raises(KeyboardInterrupt):
        run(first, TranslationCache(tmp_path, {}))
    assert run(second, TranslationCache(tmp_path, {})) == EXPECTED
    assert first.calls + second.calls == whole.calls, "nothing is translated twice, and positions are the same"


def test_processes_share_the_missing_directions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(KeyboardInterrupt):
        run(Translator(7, stop_after=2), TranslationCache(tmp_path, {}))
    translators = [Translator(7) for _ in range(3)]
    (interrupted,) = tmp_path.iterdir()
    num_done = sum(map(len, TranslationCache(tmp_path, {}).read().values()))
    assert num_done == 14
    for rank, translator in enumerate(translators):  # one after another, each with the cache of the start
        folder = tmp_path / str(rank)
        folder.mkdir()
        shutil.copy(interrupted, folder)
        run(translator, TranslationCache(folder, {}, rank + 1), Process(rank, 3))
    for rank in range(3):
        shutil.copy(tmp_path / str(rank) / TranslationCache(tmp_path, {}, rank + 1).path.name, tmp_path)
    outputs = complete_directions(TranslationCache(tmp_path, {}).read(), EVALUATION_SET.source_texts())
    assert outputs == EXPECTED
    num_sentences = sum(map(len, EXPECTED.values()))
    assert [len(translator.calls) for translator in translators] == [2, 2, 2]
    assert f"14 of {num_sentences} sentences are already translated." in capsys.readouterr().err


def test_a_cache_of_other_blocks_is_used(tmp_path: Path) -> None:
    """For example, if an evaluation resumes on another device."""
    with pytest.raises(KeyboardInterrupt):
        run(Translator(4, stop_after=4), TranslationCache(tmp_path, {}))
    resumed = Translator(6)
    assert run(resumed, TranslationCache(tmp_path, {})) == EXPECTED
    assert resumed.calls[0][2] == 12, "two blocks of six are complete"
