from __future__ import annotations

import io
import re
import sys

import pytest

from manyglot import progress
from manyglot.progress import format_bytes, format_duration, progress_bar, progress_counter

NOTE = "loss 3.214, 912,345 tokens/s, MFU 61%, lr 0.00049"


@pytest.mark.parametrize(
    ("seconds", "formatted"),
    [
        (0.4, "0 s"),
        (99.4, "99 s"),
        (119.7, "2 min 0 s"),
        (3599.6, "1 h 0 min"),
        (5000, "1 h 23 min"),
        (172_800 + 7300, "2 days 2 h"),
    ],
)
def test_a_duration_has_its_two_largest_units(seconds: float, formatted: str) -> None:
    assert format_duration(seconds) == formatted


def test_bytes_have_a_suitable_unit() -> None:
    assert [format_bytes(n) for n in (12, 1500, 925e6, 3.1e13)] == ["12 bytes", "1.5 kB", "925 MB", "31 TB"]


def test_a_narrow_terminal_has_room_for_steps_time_and_note(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "62")
    with progress_bar("training", 350_000, done=120) as display:
        display.advance(note=NOTE)
    shown = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", terminal.getvalue()).split("\n")
    assert any(re.search(r"training .* 121/350,000 0:00:0\d left", line) for line in shown)
    assert any(line.strip() == NOTE for line in shown)


def test_a_pipe_gets_plain_lines(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", 0.0)
    with progress_bar("training", 2) as display:
        display.advance(note="loss 3.2")
    with progress_bar("training", 2, done=1) as display:
        display.advance(note="loss 3.1")
    assert capsys.readouterr().err.splitlines() == [
        "training 1/2 0 s left, loss 3.2",
        "training 1/2 ended after 0 s, loss 3.2",
        "training 2/2 0 s left, loss 3.1",
        "training 2/2 done in 0 s, loss 3.1",
    ]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("total", [None, 4000])
def test_a_counter_shows_lines_and_speed_on_a_terminal(total: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr(progress, "MIN_SECONDS_TO_SHOW", 0.0)
    with progress_counter("translating", "lines", total) as display:
        display.advance(1024)
    shown = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", terminal.getvalue())
    assert f"1,024{'/4,000' if total else ''} lines, " in shown
    assert "lines/s" in shown
    assert re.search(r"translating: 1,024 lines in 0 s, [\d,]+ lines/s\n$", shown)


def test_a_counter_writes_plain_lines_to_a_pipe(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", 0.0)
    with progress_counter("translating", "lines", 4000) as display:
        display.advance(1000)
    with progress_counter("translating", "lines") as display:
        display.advance(2)
    lines = capsys.readouterr().err.splitlines()
    assert re.fullmatch(r"translating 1,000/4,000 lines, [\d,]+ lines/s, 0 s left", lines[0])
    assert re.fullmatch(r"translating 2 lines, [\d,.]+ lines/s", lines[2])


def test_a_quick_task_shows_nothing(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    with progress_counter("translating", "lines", 2) as display:
        display.advance(2)
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with progress_counter("translating", "lines", 2) as display:
        display.advance(2)
    assert capsys.readouterr().err == terminal.getvalue() == ""


def test_a_hidden_counter_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(progress, "MIN_SECONDS_TO_SHOW", 0.0)
    with progress_counter("translating", "lines", hidden=True) as display:
        display.advance(2)
    assert terminal.getvalue() == ""


@pytest.mark.parametrize("quiet", ["1", "0", ""])
def test_a_quiet_process_shows_errors_only(
    quiet: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MANYGLOT_QUIET", quiet)
    progress.print_status("status")
    progress.print_error("error")
    with progress_bar("task", 1) as bar:
        bar.advance()
    assert capsys.readouterr().err.startswith("error\n" if quiet == "1" else "status\nerror\ntask 1/1 done")
