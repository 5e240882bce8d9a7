"""Every command works as installed: through the console script, and from the wheel in an environment of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.installed_commands import commands_not_run, run_every_command

pytest.importorskip("transformers")
pytestmark = [
    pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]
ROOT = Path(__file__).parent.parent
SCRIPTS = Path(sys.executable).parent


def test_all_commands_are_run() -> None:
    assert not commands_not_run()


def test_every_command_runs_through_the_console_script(tmp_path: Path) -> None:
    run_every_command(SCRIPTS / "manyglot", tmp_path)


@pytest.mark.slow
def test_every_command_runs_from_the_wheel(tmp_path: Path) -> None:
    def run(*command: str) -> None:
        subprocess.run(command, check=True, cwd=ROOT)

    run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(tmp_path / "wheel"), ".")
    (wheel,) = (tmp_path / "wheel").glob("manyglot-*.whl")
    run(sys.executable, "-m", "venv", str(tmp_path / "env"))
    python = tmp_path / "env" / "bin" / "python"
    run(str(python), "-m", "pip", "install", "-q", "-c", "constraints.txt", f"{wheel}[ctranslate2,plot,typology]")
    (tmp_path / "work").mkdir()
    run_every_command(tmp_path / "env" / "bin" / "manyglot", tmp_path / "work")
