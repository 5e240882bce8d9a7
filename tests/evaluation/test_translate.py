from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from manyglot.corpus.languages import Direction, Languages, directions_of
from manyglot.evaluation import translate
from manyglot.evaluation.kept import Kept
from manyglot.evaluation.translate import EvaluationSet, translate_evaluation_set

CODES = ("de", "en", "fr", "sw")
ROWS = [{code: f"{code} {n}" for code in CODES if (code, n) != ("fr", 2)} for n in range(5)]
DIRECTIONS = directions_of(Languages(CODES))
EVALUATION_SET = EvaluationSet(
    {d: [row for row in ROWS if d.source in row and d.target in row] for d in DIRECTIONS}, frozenset()
)
EXPECTED = {d: [f"{d.target}({row[d.source]})" for row in rows] for d, rows in EVALUATION_SET.rows.items()}


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(translate, "ENOUGH", 1)


class Translator:
    """Tells what it was asked for; stops after some calls."""

    via: str | None = None

    def __init__(self, at_once: int = 1000, stop_after: int | None = None) -> None:
        self.engine, self.calls, self.stop_after = SimpleNamespace(at_once=at_once), [], stop_after  # type: ignore[var-annotated]

    def translate(self, texts: list[str], to: list[str], offset: int, progress: Any) -> list[str]:
        if self.stop_after is not None and len(self.calls) >= self.stop_after:
            raise KeyboardInterrupt
        self.calls.append((texts, to, offset))
        progress.advance(len(texts))
        way = f"via {self.via} " if self.via else ""
        return [f"{way}{code}({text})" for text, code in zip(texts, to, strict=True)]

    def with_settings(self, via: None) -> Translator:
        return Translator(self.engine.at_once, self.stop_after)


class Part:
    """One of several processes."""

    def __init__(self, rank: int, size: int) -> None:
        self.rank, self.size = rank, size

    def share(self, things: Any) -> list[tuple[int, Any]]:
        return list(enumerate(things))[self.rank :: self.size]

    def wait(self) -> None:
        pass


def run(translator: Translator, *arguments: Any) -> dict[Direction, list[str]]:
    return translate_evaluation_set(translator, EVALUATION_SET, *arguments)  # type: ignore[arg-type]


def test_directions_are_translated_together_whatever_their_languages() -> None:
    translator = Translator()
    assert run(translator) == EXPECTED
    assert len(translator.calls) == 1


def test_a_sentence_has_its_place_whatever_the_blocks() -> None:
    """So that what is drawn at random is the same on each machine, and with any number of them."""
    placed = []
    for at_once, num_processes in ((1, 1), (5, 1), (1000, 1), (5, 3)):
        translator = Translator(at_once)
        for rank in range(num_processes):
            run(translator, None, Part(rank, num_processes))
        placed.append(
            {
                (offset + i): pair
                for texts, to, offset in translator.calls
                for i, pair in enumerate(zip(texts, to, strict=True))
            }
        )
    assert len(placed[0]) == sum(map(len, EXPECTED.values()))
    assert all(each == placed[0] for each in placed)


def test_only_directions_without_training_go_by_way_of_another_language() -> None:
    """Those from that language have no other way, and the others that were trained need none."""
    trained = frozenset(directions_of(Languages(CODES), "en")) | {Direction("de", "fr")}
    translator = Translator()
    translator.via = "en"
    zero_shot_set = EvaluationSet(EVALUATION_SET.rows, frozenset(DIRECTIONS) - trained | {Direction("en", "sw")})
    outputs = translate_evaluation_set(translator, zero_shot_set)  # type: ignore[arg-type]
    for direction, texts in outputs.items():
        way = "" if direction in trained else "via en "
        assert texts == [way + text for text in EXPECTED[direction]]
    assert list(outputs) == list(EXPECTED)


def test_places_do_not_depend_on_what_is_kept(tmp_path: Path) -> None:
    """So that what is drawn at random is the same in an evaluation that was interrupted."""
    whole, first, second = Translator(1), Translator(1, stop_after=3), Translator(1)
    run(whole)
    assert len(whole.calls) > 4
    with pytest.raises(KeyboardInterrupt):
        run(first, Kept(tmp_path, {}))
    assert run(second, Kept(tmp_path, {})) == EXPECTED
    assert first.calls + second.calls == whole.calls, "nothing is translated twice, and all in the same places"


def test_processes_share_what_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(KeyboardInterrupt):
        run(Translator(1, stop_after=2), Kept(tmp_path, {}))
    translators = [Translator(1) for _ in range(3)]
    done = Kept(tmp_path, {}).read()
    for rank, translator in enumerate(translators):  # one after another: each has to be told what was there
        folder = tmp_path / str(rank)
        folder.mkdir()
        kept = Kept(folder, {}, rank)
        kept.add(done)
        run(translator, kept, Part(rank, 3))
        done_here = kept.read()
        assert done.keys() <= done_here.keys()
        Kept(tmp_path, {}, rank + 1).add(done_here)
    assert Kept(tmp_path, {}).read() == EXPECTED
    assert [len(translator.calls) for translator in translators] == [4, 3, 3]
    assert "2 of 12 directions are translated already." in capsys.readouterr().err
