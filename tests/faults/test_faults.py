"""Files that cannot be written, or whose process is killed, damage no result; see `make faults` for all cases."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest


@pytest.mark.usefixtures("fault_injection")
def test_twenty_random_faults_are_reported_and_repaired() -> None:
    """In a process of its own, which forks: a process with threads, such as pytest's, should not."""
    command = [sys.executable, "-m", "tests.faults", "--sample", "20"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    ended = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "20 cases, 0 failed" in ended.stdout
