from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.fixture(scope="session")
def fault_injection() -> None:
    """Skip tests that inject faults where this is not possible."""
    code = "from tests.faults.injection import why_unavailable; print(why_unavailable() or '')"
    reason = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    if reason:
        pytest.skip(f"faults cannot be injected: {reason}")
