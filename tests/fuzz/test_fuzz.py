"""A few cases of every fuzzer, and tests of the fuzzer itself. `make fuzz` runs thousands of cases."""

from __future__ import annotations

import os
import random
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from manyglot.config.experiment import Experiment
from manyglot.errors import CorpusError
from tests.fuzz import cases
from tests.fuzz.__main__ import format_failure
from tests.fuzz.byte_mutations import BYTE_MUTATIONS
from tests.fuzz.cases import Outcome, run_case
from tests.fuzz.folder_mutations import copy_folder, list_files, mutate_folder
from tests.fuzz.originals import write_originals
from tests.fuzz.targets import SHARES, make_targets, original_folder

SLOW_TARGETS = {"run": 2, "results": 2, "resumed-prepare": 1, "resumed-evaluate": 1}
"""Number of cases of the targets whose cases take half a second."""
SEED = 20_000


@pytest.fixture(scope="module")
def originals(trained: Experiment, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fuzz") / "originals"
    write_originals(folder, trained)
    return folder


@pytest.mark.parametrize("name", SHARES)
def test_damage_is_refused_or_harmless(name: str, originals: Path, trained: Experiment, tmp_path: Path) -> None:
    target, original, work = make_targets(trained)[name], original_folder(originals, name), tmp_path / "input"
    copy_folder(original, work)
    undamaged = target.use(work)
    for number in range(SLOW_TARGETS.get(name, SHARES[name])):
        result = run_case(target, original, work, SEED, number, undamaged)
        assert result.failure is None, format_failure(result.failure, with_detail=True)


@dataclass
class StubTarget:
    """A target whose use is a function of the content of its only file."""

    behave: Any
    name: str = "stub"

    def mutate(self, folder: Path, rng: random.Random) -> str:
        (folder / "file").write_text("damaged")
        return "damage the file"

    def use(self, folder: Path) -> Outcome:
        text = (folder / "file").read_text()
        return {"result": text if text == "intact" else self.behave()}

    def explain(self, folder: Path, description: str, undamaged: Outcome, outcome: Outcome) -> str:
        return "" if outcome == undamaged else "another result"


def refuse(message: str) -> None:
    raise CorpusError(message)


BEHAVIOURS: dict[str, tuple[Any, str]] = {
    "refuses": (lambda: refuse("The file is damaged. Copy it again."), ""),
    "does not notice harmless damage": (lambda: "intact", ""),
    "gives another result": (lambda: "other", "silent change"),
    "raises another error": (lambda: 1 // 0, "exception"),
    "refuses at length": (lambda: refuse("x" * 501), "message"),
    "hangs": (lambda: time.sleep(9), "hang"),
    "fills the memory": (lambda: len(bytearray(2**31)), "memory"),
    "writes to stderr in native code": (lambda: os.write(2, b"C++") and "intact", "native output"),
}


@pytest.mark.parametrize("behaviour", BEHAVIOURS)
def test_each_kind_of_failure_is_found(behaviour: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cases, "MAX_SECONDS", 1)
    (tmp_path / "original").mkdir()
    (tmp_path / "original" / "file").write_text("intact")
    behave, kind = BEHAVIOURS[behaviour]
    result = run_case(StubTarget(behave), tmp_path / "original", tmp_path / "work", 1, 0, {"result": "intact"})
    assert (result.failure.kind if result.failure else "") == kind
    assert result.refused == behaviour.startswith("refuses")


def test_mutations_depend_on_the_seed_only(originals: Path, tmp_path: Path) -> None:
    for number in range(4):
        results = []
        for attempt in ("a", "b"):
            copy_folder(originals / "dataset", tmp_path / attempt)
            description = mutate_folder(tmp_path / attempt, random.Random(number), forge=number % 2 == 0)
            files = {path.relative_to(tmp_path / attempt): path.read_bytes() for path in list_files(tmp_path / attempt)}
            results.append((description, files))
        assert results[0] == results[1]


@pytest.mark.parametrize("content", [b"", b"x", bytes(range(256))])
def test_byte_mutations_accept_any_content(content: bytes) -> None:
    for mutate in BYTE_MUTATIONS:
        for seed in range(20):
            changed, description = mutate(content, random.Random(seed))
            assert isinstance(changed, bytes)
            assert description
