"""Run commands as a user does."""

from __future__ import annotations

import pytest

from manyglot.cli import main


def run(capsys: pytest.CaptureFixture[str], *arguments: object, code: int = 0) -> tuple[str, str]:
    """Run a command in this process; return its stdout and stderr."""
    try:
        main([str(argument) for argument in arguments])
        exit_code = 0
    except SystemExit as stop:
        exit_code = int(stop.code or 0)
    written = capsys.readouterr()
    assert exit_code == code, written.err
    return written.out, written.err


def mistake(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """Run a command that fails with exit code 2; return its one-line message."""
    out, err = run(capsys, *arguments, code=2)
    assert out == ""
    assert err.startswith("manyglot: ")
    assert err.count("\n") == 1, err
    return err
