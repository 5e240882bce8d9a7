"""Settings that are damaged, or written to do harm, are one short line, through the commands too."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from manyglot.cli import main
from manyglot.config.experiment import read_experiment
from tests.commands import mistake

HOSTILE_FILES = {
    "tag": b"seed: !!int x",
    "digits": b"seed: " + b"9" * 5000,
    "brackets": b"[" * 5000,
    "merge keys": b"a: &a {k: 1}\nb: &b {<<: [*a, *a]}\nc: {<<: [*b, *b]}",
    "NUL": b"run: a\0b",
    "escaped NUL": b'run: "a\\0b"',
    "surrogate": b'run: "\\ud800"',
    "encoded surrogate": b"run: \xed\xa0\x80",
    "no text": b"\xff\xfe",
    "date": b"max_steps: 2024-13-45",
    "long key": b"x" * 1000 + b": 1",
}


@pytest.mark.parametrize("name", HOSTILE_FILES)
@pytest.mark.parametrize("command", ["train", "prepare", "describe"])
def test_hostile_settings_are_one_short_line(
    command: str, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("x.yaml").write_bytes(HOSTILE_FILES[name])
    assert len(mistake(capsys, command, "x.yaml")) <= 500


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("training.max_steps=true", "training.max_steps should be a number, got True."),
        ("seed=1:30", "seed should be a number, got '1:30'."),
        ("seed=2024-01-01", "seed should be a number, got '2024-01-01'."),
        ("training.learning_rate=1e308", "training.learning_rate: input should be less than or equal to 1"),
        ("seed=!!int x", "--set seed: the value is not valid YAML: line 1, column 1: tags"),
        ("seed=" + "9" * 5000, "--set seed: the value is not valid YAML"),
        ("seed=0x" + "f" * 5000, "--set seed: the value is not valid YAML"),
        ("seed=" + "[" * 5000, "--set seed: the value is not valid YAML: line 1, column 52: the nesting"),
        ("run=a\udcffb", "--set run: the value is not valid YAML: unacceptable character"),
        ("a\udcff=b", "a NUL character or half of a surrogate pair"),
        ("x" * 5000, "--set takes key=value"),
        ("x" * 5000 + "=1", "a value has more than 4,096 characters"),
        ("x." * 5000 + "x=1", "the nesting is deeper than 50 levels"),
        ("seed." + "x" * 5000 + "=1", "--set seed.xxx"),
    ],
)
def test_hostile_overrides_are_one_short_line(
    override: str, message: str, config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = mistake(capsys, "train", config, "--set", override)
    assert message in line
    assert len(line) <= 500


def test_a_date_is_a_folder_name(config: Path) -> None:
    assert read_experiment(config, ["run=2024-13-45"]).run == Path("2024-13-45")
    assert read_experiment(config, ["run=2024-12-24"]).run == Path("2024-12-24")


@pytest.mark.parametrize("arguments", [["train", "a\udcff.yaml"], ["train", "--a\udcff"], ["\udcff"]])
def test_bytes_that_are_no_text_are_one_line(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    monkeypatch.setattr(sys, "stderr", stream)
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    written = stream.buffer.getvalue()  # type: ignore[attr-defined]
    assert stop.value.code == 2
    assert written.count(b"\n") == 1
    assert len(written) < 500
